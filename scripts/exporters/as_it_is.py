"""A program of MLIR in its own dialect. Only its parameters and large literals are renamed and made parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.lowering.capture import timed
from scripts.lowering.link import Input, Lowered
from scripts.sources.load_mlir import MlirModule
from scripts.torch_model.loading import LoadedModel

OPTIONS: dict[str, tuple[str, ...]] = {}
REWRITES: dict[str, tuple[str, ...]] = {}
SOURCES = ("mlir",)
TESTS = ("eval",)
VERSIONS = {"iree-base-compiler": "frontend"}
MEMORY_FACTOR = 2.0
FORKABLE = True


def export(loaded: LoadedModel, options: Mapping[str, Any]) -> tuple[Lowered, dict]:
    """The program of a file; there are no options and no steps."""
    module = loaded.module
    assert isinstance(module, MlirModule)
    seconds: dict[str, float] = {}
    with timed(seconds, "read"):
        program = module.program
        arguments = [Input(kind, number) for number, kind in enumerate(program.inputs)]
    return Lowered(program.text, program.function, arguments), seconds
