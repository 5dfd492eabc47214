"""The StableHLO program of a lowering path on XLA's CPU client.

IREE compiles the same program with the same archive. Weights are arguments and are on the device before
the first call, so XLA cannot fold them. Nothing here imports torch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from scripts.baselines.sessions import runtime
from scripts.baselines.sessions.runtime import Work
from scripts.core import exits, tensors
from scripts.core.machine import cpu_name
from scripts.frontends.torch_model import footprint
from scripts.frontends.xla_client import Client, UnlinkError, call, unlink

DEVICES = ("cpu",)
TESTS = ("eval",)
TAKES = ("program", "xla_flags")
VERSIONS = {"jaxlib": "jaxlib", "jax": "jax"}
MEMORY_FACTOR = 1.0
FORKABLE = False  # it needs no torch, whose import is worth sharing

_compilations: list[float] = []
"""Seconds of each compilation in this process."""


class Device(runtime.Device):
    """XLA's CPU client, with `threads` threads. It multiplies in the types of the program, and a call of the session returns when its
    results exist."""

    def __init__(self, kind: str, threads: int) -> None:
        self.kind = kind
        self.name = cpu_name()
        self.client = Client(threads)


class ProgramSession(runtime.Session):
    """A compiled program with its weights and inputs on the device. `located`: its instructions say which line of the program they
    are of. `weight_names`: of the arguments that follow the inputs."""

    def __init__(self, work: Work, device: Device, located: bool = False) -> None:
        signature = work.check.read_signature()
        stage = f"baseline {work.runtime}"
        footprint.require(footprint.of_archive(signature), stage, MEMORY_FACTOR)
        assert (
            work.program is not None
        )  # else refused by runtime.prepare_process, as TAKES says "program"
        try:
            program = unlink(work.program.read_bytes(), located=located)
        except UnlinkError as error:
            exits.fail(f"{error}, which XLA compiles", exits.UNSUPPORTED)
        self._types = signature.inputs
        self._outputs = signature.outputs
        self._client = device.client
        start = time.perf_counter()
        self._executable = self._client.compile(program.text)
        _compilations.append(time.perf_counter() - start)
        stored = tensors.read_archive(work.weights)
        kinds = {kind.name: kind for kind in signature.parameters}
        weights = [
            stored[key].view(_passed(kinds[key].dtype)).reshape(kinds[key].shape)
            for key in program.weights
        ]
        self._weights = self._client.place(weights)
        self.weight_names, self.input_count = program.weights, len(self._types)
        inputs = tensors.load_npz(work.inputs)
        self._inputs = self._inputs_of([inputs[str(i)] for i in range(len(self._types))])
        self.load_s = time.perf_counter() - start

    def instructions(self) -> str:
        """The compiled program in XLA's text format (HLO)."""
        return "\n".join(module.to_string() for module in self._executable.hlo_modules())

    def __call__(self) -> list[Any]:
        return call(self._executable, [*self._inputs, *self._weights])

    def arrays(self, results: list[Any]) -> dict[str, np.ndarray]:
        pairs = zip(results, self._outputs, strict=True)
        return {kind.name: np.asarray(r).view(tensors.native(kind.dtype)) for r, kind in pairs}

    def call_with(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        own = self._inputs
        self._inputs = self._inputs_of(arrays)
        try:
            return list(self.arrays(self()).values())
        finally:
            self._inputs = own

    def _inputs_of(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        pairs = zip(arrays, self._types, strict=True)
        return self._client.place(
            tensors.as_native(a, kind.dtype).view(_passed(kind.dtype)) for a, kind in pairs
        )


def _passed(dtype: str) -> np.dtype:
    """The type in which the program expects a tensor: its integers are signless, and XLA's are signed."""
    return tensors.native(dtype.removeprefix("u") if dtype.startswith("uint") else dtype)


open_session = ProgramSession


def compile_seconds() -> float | None:
    """Seconds that XLA has spent compiling so far."""
    return sum(_compilations) or None
