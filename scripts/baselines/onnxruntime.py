"""ONNX Runtime on its CPU provider: an ONNX file, or a PyTorch model through torch.onnx.export with the archive's weights.

Export and session are made before the first call; both are in compile_s. Weights are initializers of
the ONNX graph, which the session may fold and pack.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnxruntime
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as state

from scripts.baselines.sessions import converted
from scripts.baselines.sessions.converted import compile_seconds
from scripts.baselines.sessions.runtime import Work
from scripts.baselines.sessions.torch_device import TorchDevice as Device
from scripts.baselines.sessions.torch_session import TorchSession
from scripts.core import exits
from scripts.frontends.sources.load_onnx import OnnxModule
from scripts.frontends.sources.registry import source_of
from scripts.frontends.torch_model.errors import cause
from scripts.frontends.torch_model.loading import FlatModel, LoadedModel

__all__ = ["Device", "compile_seconds", "convert", "load", "open_session"]

SOURCES = ("module", "onnx")
DEVICES = ("cpu",)
TESTS = ("eval",)
VERSIONS = {
    "onnxruntime": "onnxruntime",
    "onnx": "onnx",
    "onnxscript": "onnxscript",
    "torch": "torch",
}
MEMORY_FACTOR = 2.0
FORKABLE = True

_FILE = "model.onnx"
_SOURCE = "source.txt"
"""The path of a model that is an ONNX file: it stays where it is, beside its external data."""
_REFUSALS = (state.Fail, state.InvalidGraph, state.NotImplemented, state.InvalidArgument)
"""What ONNX Runtime raises if it does not support a model."""


class OnnxModel:
    """A session that is called with flat inputs and returns tensors."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self._inputs = [argument.name for argument in session.get_inputs()]
        self._outputs = [result.name for result in session.get_outputs()]

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        values = {}
        for name, tensor in zip(self._inputs, inputs, strict=True):
            values[name] = _to_onnx(tensor.contiguous())
        results = self._session.run_with_ort_values(self._outputs, values)
        return [_to_torch(result) for result in results]


def _to_onnx(tensor: torch.Tensor) -> onnxruntime.OrtValue:
    """A value that shares the tensor's memory. Booleans go through numpy: ONNX Runtime 1.31 does not
    accept them by DLPack."""
    if tensor.dtype is torch.bool:
        return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy())
    return onnxruntime.OrtValue.from_dlpack(tensor)


def _to_torch(value: onnxruntime.OrtValue) -> torch.Tensor:
    """A tensor that shares the value's memory. By DLPack, booleans would become bytes."""
    if value.data_type() == "tensor(bool)":
        return torch.from_numpy(value.numpy())
    return torch.from_dlpack(value)


def open_session(work: Work, device: Device) -> TorchSession:
    """The model as a session of ONNX Runtime. Exits as unsupported if it cannot be converted."""
    is_onnx = source_of(work.model.model_file).kind == "onnx"
    first = (lambda: None) if is_onnx else warm_up
    return converted.open_session(work, device, convert, load, first)


def warm_up() -> None:
    """Export a trivial model: the first export of a process imports half of torch and onnxscript."""
    torch.onnx.export(torch.nn.ReLU().eval(), (torch.zeros(1),), dynamo=True, verbose=False)


def convert(loaded: LoadedModel, folder: Path) -> None:
    if isinstance(loaded.module, OnnxModule):
        runnable = loaded.module.runnable
        if isinstance(runnable, bytes):
            (folder / _FILE).write_bytes(runnable)
        else:
            (folder / _SOURCE).write_text(str(runnable.absolute()), encoding="utf-8")
        return
    inputs = tuple(tensor for _, tensor in loaded.inputs)
    try:
        program = torch.onnx.export(FlatModel(loaded).eval(), inputs, dynamo=True, verbose=False)
    except torch.onnx.OnnxExporterError as error:
        exits.fail(f"torch.onnx.export: {cause(error)}", exits.UNSUPPORTED)
    program.save(folder / _FILE, external_data=True)  # one file holds 2 GB at most


def session_options(threads: int) -> onnxruntime.SessionOptions:
    """The options of a session with a number of threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options


def model_file(folder: Path) -> Path:
    """The ONNX file of a converted model."""
    source = folder / _SOURCE
    return Path(source.read_text(encoding="utf-8")) if source.exists() else folder / _FILE


def load(folder: Path, threads: int) -> OnnxModel:
    try:
        session = onnxruntime.InferenceSession(
            model_file(folder), session_options(threads), providers=["CPUExecutionProvider"]
        )
    except _REFUSALS as error:
        exits.fail(f"ONNX Runtime: {cause(error)}", exits.UNSUPPORTED)
    return OnnxModel(session)
