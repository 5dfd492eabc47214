"""OpenVINO on its CPU device: the model through torch.export, in float32 (its default is bfloat16 where the CPU has it).

Conversion and compilation happen before the first call; both are in compile_s. Weights are constants, which OpenVINO
may fold and pack.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from scripts.baselines.sessions import converted
from scripts.baselines.sessions.converted import Call, compile_seconds
from scripts.baselines.sessions.torch_device import TorchDevice as Device
from scripts.frontends.torch_model import errors
from scripts.frontends.torch_model.loading import LoadedModel

__all__ = ["Device", "compile_seconds", "convert", "load", "open_session"]

DEVICES = ("cpu",)
TESTS = ("eval",)
VERSIONS = {"openvino": "openvino", "torch": "torch"}
MEMORY_FACTOR = 4.0
FORKABLE = True

# convert_model would send statistics over the network. Without this package, it does not.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
openvino = importlib.import_module("openvino")

_FILE = "model.xml"
_SUMMARY = re.compile(r"^-- (?:No conversion rule found for operations|Conversion is failed for): .+$", re.MULTILINE)  # fmt: skip
"""The lines of an error that name all operators that were not converted."""


def convert(loaded: LoadedModel, folder: Path) -> None:
    converted.require_float32(loaded, "openvino")
    program = converted.exported(loaded)
    with converted.rejected("OpenVINO", operators):
        model = openvino.convert_model(program)
    openvino.save_model(model, folder / _FILE, compress_to_fp16=False)


def operators(error: BaseException) -> str:
    """The operators that an error of the conversion names, else its first line."""
    named = [line.removeprefix("-- ") for line in _SUMMARY.findall(str(error))]
    return "; ".join(named) or errors.cause(error)


def compiled(folder: Path, threads: int, more: Mapping[str, Any] | None = None) -> Any:
    """The converted model, compiled for the CPU. `more`: further properties. Exits as unsupported if it cannot be compiled."""
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        # Else it uses one thread per physical core.
        "ENABLE_HYPER_THREADING": True,
        **(more or {}),
    }
    with converted.rejected("OpenVINO"):
        return openvino.Core().compile_model(folder / _FILE, "CPU", settings)


def load(folder: Path, threads: int) -> Call:
    request = compiled(folder, threads).create_infer_request()

    def call(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        arrays = [tensor.contiguous().numpy() for tensor in inputs]
        results = request.infer(arrays, share_inputs=True, share_outputs=True)
        return [torch.from_numpy(array) for array in results.to_tuple()]

    return call


open_session = functools.partial(converted.open_session, convert=convert, load=load)
