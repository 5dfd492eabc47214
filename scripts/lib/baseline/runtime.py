"""What a baseline's runtime is to the commands that run it (scripts/baselines)."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from scripts.lib.baseline.arguments import Work
from scripts.lib.core import exits


class NoDevice(Exception):
    """The runtime has no such device here; says what was looked for."""


class Session(Protocol):
    """A cell's work, loaded and ready: calling it is one timed call.

    `load_s`: seconds that it took to load weights and inputs, and to compile what is compiled ahead
    of the first call.
    """

    load_s: float

    def __call__(self) -> Any:
        """The results as the runtime gives them; they are there when the device is finished."""

    def arrays(self, results: Any) -> dict[str, np.ndarray]:
        """A call's results by name, on the host."""

    def call_with(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What a call gives for other inputs of the same types, in their order."""

    def check(self) -> None:
        """Exit where what was timed is no measure of the model."""

    def profile(self, kinds: Collection[str]) -> dict[str, Any] | None:
        """What `measure.collect` asks for, by one more call; None where there is no profiler."""


def open_runtime(work: Work) -> tuple[Any, Any]:
    """The runtime's module and its device; exits where there is no such device."""
    runtime = importlib.import_module(f"scripts.baselines.{work.runtime}")
    try:
        device = runtime.Device(work.device, work.threads)
    except NoDevice as error:
        exits.fail(f"no device {work.device}: {error}", exits.UNAVAILABLE)
    device.set_matmul_precision(work.matmul_precision)
    return runtime, device


def settle(runtime: Any) -> None:
    """End what the runtime has left to run beside the timed calls, where it has such a thing."""
    if hasattr(runtime, "settle"):
        runtime.settle()


def compile_seconds(runtime: Any, device: Any) -> float | None:
    """Seconds spent compiling so far, by the runtime's account or its device's."""
    if hasattr(runtime, "compile_seconds"):
        return runtime.compile_seconds()
    counted = device.counters()
    return counted.compile_s if counted else None
