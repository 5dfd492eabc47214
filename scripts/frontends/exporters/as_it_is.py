"""A program of MLIR in its own dialect. Its parameters and large literals are renamed and made parameters, and StableHLO is rewritten
so that IREE compiles it rightly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.frontends.lowering.capture import timed
from scripts.frontends.lowering.link import Input, Lowered
from scripts.frontends.lowering.stablehlo import for_iree
from scripts.frontends.sources.load_mlir import MlirModule, Program
from scripts.frontends.torch_model.loading import LoadedModel
from scripts.frontends.xla_client import UnlinkError, unlink

OPTIONS = {"rewrites": ("all", "needed", "none")}
REWRITES: dict[str, tuple[str, ...]] = {}
SOURCES = ("mlir",)
TESTS = ("eval",)
DYNAMIC = True
VERSIONS = {"iree-base-compiler": "frontend"}
MEMORY_FACTOR = 2.0
FORKABLE = True


def export(loaded: LoadedModel, options: Mapping[str, Any]) -> tuple[Lowered, dict]:
    """The program of a file, and the seconds of each step. No rewrite is for speed, so `needed` is `all`."""
    module = loaded.module
    assert isinstance(module, MlirModule)
    seconds: dict[str, float] = {}
    with timed(seconds, "read"):
        program = module.program
        arguments = [Input(kind, number) for number, kind in enumerate(program.inputs)]
    text, names = program.text, tuple[str, ...]()
    with timed(seconds, "rewrite"):
        if options["rewrites"] != "none" and _is_for_xla(program):
            text, names = for_iree(text)
    return Lowered(text, program.function, arguments, rewrites=names), seconds


def _is_for_xla(program: Program) -> bool:
    """Whether the golden results are XLA's. Those of IREE at O0 may have the faults that rewrites avoid, so they are compared with the
    program as it is."""
    if program.dynamic_dims:
        return False
    try:
        unlink(program.text, program.function)
    except UnlinkError:
        return False
    return True
