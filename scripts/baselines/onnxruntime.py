"""ONNX Runtime on its CPU provider: an ONNX file, or a PyTorch model through torch.onnx.export with the archive's weights.

Export and session are made before the first call; both are in compile_s. Weights are initializers of
the ONNX graph, which the session may fold and pack.
"""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as state

from scripts.core import exits
from scripts.lowering.flat_model import FlatModel
from scripts.sources.load_onnx import OnnxModule
from scripts.sources.load_onnx import open_session as open_onnx
from scripts.sources.registry import source_of
from scripts.torch_model import errors, trees
from scripts.torch_model.loading import LoadedModel
from scripts.torch_runtime.arguments import Work
from scripts.torch_runtime.torch_device import TorchDevice as Device
from scripts.torch_runtime.torch_session import TorchSession

__all__ = ["Device", "compile_seconds", "open_session"]

SOURCES = ("module", "onnx")
DEVICES = ("cpu",)
TESTS = ("eval",)
TAKES = ()
LAZY = False
VERSIONS = {
    "onnxruntime": "onnxruntime",
    "onnx": "onnx",
    "onnxscript": "onnxscript",
    "torch": "torch",
}
MEMORY_FACTOR = 2.0
FORKABLE = True

_compilations: list[float] = []
"""Seconds of each export with its session, in this process."""

_REFUSALS = (state.Fail, state.InvalidGraph, state.NotImplemented, state.InvalidArgument)
"""What ONNX Runtime raises if it does not support a model."""


class OnnxModel:
    """A session that is called like the model and returns tensors."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self._inputs = [argument.name for argument in session.get_inputs()]
        self._outputs = [result.name for result in session.get_outputs()]

    def __call__(self, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        values = {}
        for name, (_, tensor) in zip(self._inputs, trees.flat_tensors((args, kwargs)), strict=True):
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
    if source_of(work.model.model_file).kind == "module":
        # The first export of a process imports half of torch and onnxscript.
        torch.onnx.export(torch.nn.ReLU().eval(), (torch.zeros(1),), dynamo=True, verbose=False)
    prepare = functools.partial(_prepare, threads=work.threads)
    return TorchSession(work, device, prepare)


def _prepare(loaded: LoadedModel, threads: int) -> OnnxModel:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    start = time.perf_counter()
    if isinstance(loaded.module, OnnxModule):
        with errors.reported():
            session = open_onnx(loaded.module.path, options)
        _compilations.append(time.perf_counter() - start)
        return OnnxModel(session)
    inputs = tuple(tensor for _, tensor in loaded.inputs)
    try:
        with torch.no_grad():
            program = torch.onnx.export(
                FlatModel(loaded).eval(), inputs, dynamo=True, verbose=False
            )
    except torch.onnx.OnnxExporterError as error:
        exits.fail(f"torch.onnx.export: {_cause(error)}", exits.UNSUPPORTED)
    with tempfile.TemporaryDirectory(prefix="onnx-") as folder:
        file = Path(folder, "model.onnx")
        program.save(file, external_data=True)  # one file holds 2 GB at most
        try:
            session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])  # fmt: skip
        except _REFUSALS as error:
            exits.fail(f"ONNX Runtime: {_cause(error)}", exits.UNSUPPORTED)
    _compilations.append(time.perf_counter() - start)
    return OnnxModel(session)


def _cause(error: BaseException) -> str:
    """The first line of the message of an error's first cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


def compile_seconds() -> float | None:
    """Seconds that export and session creation have taken so far."""
    return sum(_compilations) or None
