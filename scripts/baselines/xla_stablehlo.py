"""The StableHLO program of a lowering path on XLA's CPU client (PJRT, from jaxlib).

IREE compiles the same program with the same archive. Weights are arguments and are on the device before
the first call, so XLA cannot fold them. Nothing here imports torch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from scripts.core import archive, exits, tensors
from scripts.core.machine import cpu_name
from scripts.lowering.unlink import UnlinkError, unlink
from scripts.torch_model import footprint
from scripts.torch_runtime.arguments import Work

DEVICES = ("cpu",)
TESTS = ("eval",)
TAKES = ("program", "xla_flags")
LAZY = False
VERSIONS = {"jaxlib": "jaxlib", "jax": "jax"}
MEMORY_FACTOR = 1.0
FORKABLE = False  # its environment has no torch, whose import is worth sharing

_compilations: list[float] = []
"""Seconds of each compilation in this process."""


class Device:
    """XLA's CPU client, with `threads` threads."""

    def __init__(self, kind: str, threads: int) -> None:
        # The client reads both when it is created.
        os.environ["JAX_PLATFORMS"] = kind
        os.environ["NPROC"] = str(threads)
        import jax
        from jax.extend import backend

        jax.config.update("jax_enable_x64", True)  # else 64-bit inputs are cut to 32 bits
        self.kind = kind
        self.name = cpu_name()
        self.client = backend.get_backend(kind)
        self.device = self.client.devices()[0]

    def set_matmul_precision(self, precision: str) -> None:
        """Has no effect: XLA's CPU backend multiplies in the types of the program."""

    def finish(self) -> None:
        """Returns at once: a call of the session returns only when its results exist."""

    def counters(self) -> None:
        """None: there are no counters."""

    def peak_memory_mb(self) -> None:
        """None: the device has no memory other than the host's."""


class ProgramSession:
    """A compiled program with its weights and inputs on the device."""

    def __init__(self, work: Work, device: Device) -> None:
        signature = work.check.read_signature()
        stage = f"baseline {work.runtime}"
        footprint.require(footprint.of_archive(signature), stage, MEMORY_FACTOR)
        assert work.program is not None  # refused by arguments.py, as TAKES says "program"
        try:
            program = unlink(work.program)
        except UnlinkError as error:
            exits.fail(f"{error}; `program` is to name a StableHLO frontend", exits.UNSUPPORTED)
        self._types = signature.inputs
        self._outputs = signature.outputs
        self._device = device.device
        start = time.perf_counter()
        self._executable = device.client.compile_and_load(program.text, [device.device])
        _compilations.append(time.perf_counter() - start)
        stored, kinds = archive.read(work.weights), {p.name: p for p in signature.parameters}
        weights = [
            stored[key].view(_passed(kinds[key].dtype)).reshape(kinds[key].shape)
            for key in program.weights
        ]
        self._weights = self._placed(weights)
        inputs = tensors.load_npz(work.inputs)
        self._inputs = self._inputs_of([inputs[str(i)] for i in range(len(self._types))])
        self.load_s = time.perf_counter() - start

    def __call__(self) -> list[Any]:
        results = self._executable.execute([*self._inputs, *self._weights])
        for result in results:
            result.block_until_ready()
        return results

    def arrays(self, results: list[Any]) -> dict[str, np.ndarray]:
        """A call's results by name, on the host."""
        pairs = zip(results, self._outputs, strict=True)
        return {kind.name: np.asarray(r).view(tensors.native(kind.dtype)) for r, kind in pairs}

    def call_with(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of a call on other inputs of the same types, in the same order."""
        own = self._inputs
        self._inputs = self._inputs_of(arrays)
        try:
            return list(self.arrays(self()).values())
        finally:
            self._inputs = own

    def check(self) -> None:
        """Returns at once: during forward passes there is nothing that can change."""

    def profile(self, kinds: Collection[str]) -> None:
        """None: PyTorch's profiler does not see these calls."""

    def _inputs_of(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        pairs = zip(arrays, self._types, strict=True)
        return self._placed(
            [tensors.as_native(a, kind.dtype).view(_passed(kind.dtype)) for a, kind in pairs]
        )

    def _placed(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        import jax

        return [jax.device_put(a, self._device).block_until_ready() for a in arrays]


def _passed(dtype: str) -> np.dtype:
    """The type in which the program expects a tensor: its integers are signless, and XLA's are signed."""
    return tensors.native("int8" if dtype == "uint8" else dtype)


open_session = ProgramSession


def compile_seconds() -> float | None:
    """Seconds that XLA has spent compiling so far."""
    return sum(_compilations) or None
