"""LiteRT (TensorFlow Lite) on its CPU interpreter, which runs what it can by XNNPACK: the model through litert_torch.

Conversion and loading happen before the first call; both are in compile_s.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import litert_torch
import torch
from ai_edge_litert.interpreter import Interpreter

from scripts.baselines.sessions import converted
from scripts.baselines.sessions.converted import Call, compile_seconds
from scripts.baselines.sessions.torch_device import TorchDevice as Device
from scripts.frontends.torch_model.loading import FlatModel, LoadedModel

__all__ = ["Device", "compile_seconds", "convert", "load", "open_session"]

DEVICES = ("cpu",)
TESTS = ("eval",)
VERSIONS = {"litert-torch": "litert_torch", "ai-edge-litert": "ai_edge_litert", "torch": "torch"}
MEMORY_FACTOR = 4.0
FORKABLE = True

_FILE = "model.tflite"


def convert(loaded: LoadedModel, folder: Path) -> None:
    converted.require_float32(loaded, "litert")
    inputs = tuple(tensor for _, tensor in loaded.inputs)
    with converted.rejected("litert_torch.convert"):
        model = litert_torch.convert(FlatModel(loaded).eval(), inputs, enable_x64=True)
    model.export(str(folder / _FILE))


def load(folder: Path, threads: int) -> Call:
    with converted.rejected("LiteRT"):
        interpreter = Interpreter(str(folder / _FILE), num_threads=threads)
        interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner()
    inputs = _in_order(runner.get_input_details(), "args_")
    outputs = _in_order(runner.get_output_details(), "output_")

    def call(given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        for index, tensor in zip(inputs, given, strict=True):
            interpreter.set_tensor(index, tensor.numpy())
        interpreter.invoke()
        return [torch.from_numpy(interpreter.get_tensor(index)) for index in outputs]

    return call


def _in_order(details: dict[str, dict], prefix: str) -> list[int]:
    """The indices of tensors that are called `args_0`, `args_1` and so on."""
    return [details[f"{prefix}{number}"]["index"] for number in range(len(details))]


open_session = functools.partial(converted.open_session, convert=convert, load=load)
