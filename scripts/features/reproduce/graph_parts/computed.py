"""Lowers parts of graphs through one frontend, compiles them for the CPU and runs them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from scripts.core import archive, tensors
from scripts.core.tensors import TensorType
from scripts.features.reproduce.graph_parts.graph import Part
from scripts.features.reproduce.reduction.oracle import Compiler
from scripts.iree import float64
from scripts.iree.backends import BACKENDS, compile_flags
from scripts.iree.session import Module, Session
from scripts.iree.tools import tool
from scripts.lowering import link
from scripts.torch_model import convert
from scripts.torch_model.weights import named_weights

CPU = "llvm-cpu"
PLAIN = tuple(compile_flags(CPU, None, "O0", ()))
"""Flags with which IREE is taken to be right: what is wrong then is wrong in the program."""


@dataclass(frozen=True)
class Compiled:
    """A program, and what is needed to run it. `flags`: with which it was compiled. `module`: None if it did not compile, and
    `why` says how that failed."""

    text: str
    rewrites: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    module: Module | None = None
    types: Sequence[TensorType] = ()
    inputs: Sequence[np.ndarray] = ()
    why: str = ""


@dataclass(frozen=True)
class Lowering:
    """A frontend (an exporter and its options) and the flags of iree-compile. `folder`: for files; `threads`: of the CPU."""

    exporter: ModuleType
    options: Mapping[str, Any]
    flags: tuple[str, ...]
    folder: Path
    threads: int

    def compiled(self, part: Part, limit_s: float) -> Compiled:
        """Lower and compile a part."""
        model = part.model()
        try:
            lowered, _ = self.exporter.export(model, self.options)
        except Exception as error:  # each package has error classes of its own
            return Compiled("", why=f"{type(error).__name__}: {error}")
        types = [convert.tensor_type(name, tensor) for name, tensor in model.inputs]
        text = link.link(lowered, types).decode()
        flags = (*self.flags, *float64.of_text(text, self.flags))
        vmfb = self.folder / "module.vmfb"
        failure = (
            Compiler(tool("iree-compile"), flags, self.folder).run(text, limit_s, vmfb).failure
        )
        if failure is not None:
            return Compiled(text, lowered.rewrites, flags, why=failure.detail)
        stored = (convert.to_numpy(tensor) for _, tensor in model.inputs)
        inputs = [
            tensors.as_native(one, kind.dtype) for one, kind in zip(stored, types, strict=True)
        ]
        module = Module(vmfb, self._weights(part), BACKENDS[CPU].device)
        return Compiled(text, lowered.rewrites, flags, module, types, inputs)

    def outputs(self, compiled: Compiled) -> list[np.ndarray]:
        """The results of a module. Raises RuntimeError if it fails."""
        assert compiled.module is not None
        with contextlib.closing(Session(compiled.module, self.threads)) as session:
            outputs, _ = session.call(compiled.inputs)
        return [_plain(one) for one in outputs]

    def _weights(self, part: Part) -> Path | None:
        weights, _ = named_weights(part.module)
        if not weights:
            return None
        path = self.folder / "weights.irpa"
        archive.write(path, ((key, convert.to_bytes(one)) for key, one in weights.items()))
        return path


def _plain(array: np.ndarray) -> np.ndarray:
    """An array of a type that numpy has: bfloat16 as float32."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
