"""The request of every stage that runs a baseline, and the interface of its runtime (scripts/baselines). Nothing here imports torch."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scripts.config import plugins
from scripts.config.choices import DEFAULT_MATMUL_PRECISION, MATMUL_PRECISIONS, PRECISIONS, TESTS
from scripts.core import exits, machine
from scripts.core.commands import option
from scripts.frontends.torch_model.arguments import ModelChoice, Optimizer
from scripts.measure.timing.calls import Counters
from scripts.measure.verify.verify import Check


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a baseline's cell runs: a model with the archive's weights and the reference's inputs, or
    the `program` that a frontend exported from it; and what its results are compared with.

    `rewrites`: "speed" for the captured graph, rewritten for speed; "" for the model as it is.
    """

    model: ModelChoice
    check: Check
    weights: Path
    inputs: Path
    runtime: str = option(help="a module of scripts/baselines")
    device: str = option("cpu", choices=plugins.DEVICES)
    threads: int = machine.threads_option()
    test: str = option("eval", choices=TESTS)
    precision: str = option("none", choices=PRECISIONS)
    matmul_precision: str = option(DEFAULT_MATMUL_PRECISION, choices=MATMUL_PRECISIONS)
    xla_flags: str = option("", help="XLA_FLAGS of the runtime")
    compile: Mapping[str, Any] = option(
        factory=dict, help='JSON, arguments of torch.compile: {"mode": "max-autotune"}'
    )
    rewrites: str = option("", choices=("", "speed"), help="of the captured graph")
    optimizer: Optimizer = Optimizer.option()
    program: Path | None = option(None, help="for a runtime that runs a frontend's program")


@dataclass(frozen=True, kw_only=True)
class BaselineRequest:
    """`collect`: the profiles to take after a verification, such as `profiler`."""

    work: Work
    collect: Sequence[str] = ()


CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""Environment variable with the folder of what a runtime compiles: of a verification and its timing, or of another command."""


def use_cache(folder: Path) -> Path:
    """Make inductor keep what it compiles in a folder of its own in `folder`, where the timing finds it again. Returns that."""
    cache = folder / "cache"
    os.environ[CACHE] = str(cache.absolute())
    return cache


def prepare_process(work: Work) -> None:
    """Set what the runtime reads on import. Exits if the runtime cannot run this work."""
    declared = plugins.runtime(work.runtime)
    refused = ""
    if work.test not in declared.tests:
        refused = f"{work.runtime} runs {', '.join(declared.tests)}, not {work.test}"
    elif work.rewrites and work.test != "eval":
        refused = f"a graph is captured and rewritten for eval, not for {work.test}"
    elif work.rewrites and work.precision != "none":
        refused = (
            f"a graph is rewritten for the model's own dtype, not for precision {work.precision}"
        )
    if refused:
        exits.fail(refused, exits.UNSUPPORTED)
    if ("program" in declared.takes) != (work.program is not None):
        needs = "needs a" if "program" in declared.takes else "takes no"
        exits.fail(f"{work.runtime} {needs} program")
    if work.xla_flags:
        os.environ["XLA_FLAGS"] = work.xla_flags


class NoDevice(Exception):
    """The runtime does not have this device. Says what was looked for."""


class Device:
    """A device on which a baseline runs. `kind` is cpu or cuda, `name` that of the hardware. A runtime overrides what it has: here
    the device computes at once, in the memory of the host, and counts nothing."""

    kind: str
    name: str

    def set_matmul_precision(self, precision: str) -> None:
        """`highest`, `high` or `medium`, as torch.set_float32_matmul_precision."""

    def finish(self) -> None:
        """Return when the device has finished all work."""

    def counters(self) -> Counters | None:
        """Compilations and executions so far."""
        return None

    def peak_memory_mb(self) -> float | None:
        """Peak memory of tensors on the device, in MiB; None if the device uses the host's memory."""
        return None

    def fallback_operators(self) -> list[str] | None:
        """Operators without a lowering, which have run on the CPU so far; None if there is no such thing."""
        return None

    def clear_metrics(self) -> None:
        """Reset the runtime's metrics and counters."""

    def metrics_report(self) -> str:
        """The runtime's own report of its metrics."""
        return ""


class Session(Protocol):
    """The work of a cell, loaded and ready. Calling it is one timed call.

    `load_s`: seconds to load weights and inputs, and to compile what is compiled before the first call. `rewrites`: names of the
    rewrites that have changed the model's graph.
    """

    load_s: float
    rewrites: tuple[str, ...] = ()

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
        return None


def open_device(runtime_name: str, kind: str, threads: int) -> tuple[Any, Any]:
    """A runtime's module and its device. Exits if the device does not exist."""
    if kind == "cuda":
        try:
            ctypes.CDLL("libcuda.so.1")  # as torch and IREE load it
        except OSError:
            exits.fail("no device cuda: no CUDA driver (libcuda.so.1) here", exits.UNAVAILABLE)
    runtime = importlib.import_module(f"scripts.baselines.{runtime_name}")
    try:
        return runtime, runtime.Device(kind, threads)
    except NoDevice as error:
        exits.fail(f"no device {kind}: {error}", exits.UNAVAILABLE)


def open_runtime(work: Work) -> tuple[Any, Any]:
    """The runtime's module and its device, for this work. Exits if the device does not exist."""
    runtime, device = open_device(work.runtime, work.device, work.threads)
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
