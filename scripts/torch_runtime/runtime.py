"""The interface of a baseline's runtime (scripts/baselines) for the commands that run it."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from scripts.core import exits
from scripts.torch_runtime.arguments import Work


class NoDevice(Exception):
    """The runtime does not have this device. Says what was looked for."""


class Session(Protocol):
    """The work of a cell, loaded and ready. Calling it is one timed call.

    `load_s`: seconds to load weights and inputs, and to compile what is compiled before the first call.
    """

    load_s: float

    def __call__(self) -> Any:
        """Make one call. The results of the runtime exist once the device has finished."""

    def arrays(self, results: Any) -> dict[str, np.ndarray]:
        """The results of a call by name, on the host."""

    def call_with(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of a call on other inputs of the same types, in the same order."""

    def check(self) -> None:
        """Exit if the timed calls do not represent the model."""

    def profile(self, kinds: Collection[str]) -> dict[str, Any] | None:
        """The profiles of `measure.collect`, by one more call; None if there is no profiler."""


def open_runtime(work: Work) -> tuple[Any, Any]:
    """The runtime's module and its device. Exits if the device does not exist."""
    runtime = importlib.import_module(f"scripts.baselines.{work.runtime}")
    try:
        device = runtime.Device(work.device, work.threads)
    except NoDevice as error:
        exits.fail(f"no device {work.device}: {error}", exits.UNAVAILABLE)
    device.set_matmul_precision(work.matmul_precision)
    return runtime, device


def settle(runtime: Any) -> None:
    """End background work of the runtime that would run during the timed calls, if there is any."""
    if hasattr(runtime, "settle"):
        runtime.settle()


def compile_seconds(runtime: Any, device: Any) -> float | None:
    """Seconds spent compiling so far, as counted by the runtime or its device."""
    if hasattr(runtime, "compile_seconds"):
        return runtime.compile_seconds()
    counted = device.counters()
    return counted.compile_s if counted else None


def compile_count(runtime: Any, device: Any) -> int | None:
    """The number of compilations so far, as counted by the runtime or its device."""
    if hasattr(runtime, "compile_count"):
        return runtime.compile_count()
    counted = device.counters()
    return counted.compile_count if counted else None
