"""Run a session's calls and time them, each one waited for: the same way for every baseline."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any, Protocol

from scripts.lib.timing.measurement import Run
from scripts.lib.timing.stopping import Schedule


@dataclass(frozen=True)
class Counters:
    """What a runtime counts by itself: how often and for how many seconds so far."""

    compile_count: int
    compile_s: float
    execute_count: int
    execute_s: float

    def __sub__(self, before: Counters) -> Counters:
        """What was counted since then."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Counters(*(now - then for now, then in pairs))


class Device(Protocol):
    """What calls are waited for on."""

    def finish(self) -> None:
        """Return when all that was asked of the device is done."""

    def counters(self) -> Counters | None:
        """What the runtime has counted so far; None where it counts nothing."""


@dataclass(frozen=True)
class Calls:
    """A run of calls; the first one's results, if they were to be kept, and its seconds.

    `inside`: whether something was executed before a call was to be finished.
    """

    run: Run
    first: Any
    first_s: float
    inside: bool


def run_calls(
    call: Callable[[], Any],
    device: Device,
    iterations: int,
    *,
    keep: bool = False,
    watch: bool = False,
    lazy: bool = False,
) -> Calls:
    """That many calls, each waited for; with `keep`, the first one's results are kept.

    A call is over when its results are there: the next one is not traced or launched meanwhile.
    `trace_s` is the host's part. With `watch`, what was compiled in it is taken out, and for a `lazy`
    runtime what was executed (for a value that the model's own code looks at); that costs some
    0.1 ms a call, so it is for the cold run, and where there is such a value.
    """
    before = device.counters()
    host_s = inside_s = first_s = 0.0
    first = result = None
    inside = False
    start = time.perf_counter()
    for number in range(iterations):
        result = None  # as in a loop of the user's: not a second set of results beside the next
        launched = device.counters() if watch else None
        begin = time.perf_counter()
        result = call()
        host_s += time.perf_counter() - begin
        if launched is not None and (now := device.counters()) is not None:
            spent = now - launched
            inside = inside or spent.execute_count > 0
            inside_s += spent.compile_s + (spent.execute_s if lazy else 0.0)
        device.finish()
        if not number:
            first, first_s = result if keep else None, time.perf_counter() - start
    total_s = time.perf_counter() - start
    run = Run(total_s, iterations)
    if before is not None and (after := device.counters()) is not None:
        run = _with_counted(run, host_s - inside_s, after - before)
    return Calls(run, first, first_s, inside)


def _with_counted(run: Run, trace_s: float, spent: Counters) -> Run:
    """The run with what its runtime counted meanwhile."""
    return Run(
        run.total_s,
        run.iterations,
        trace_s,
        spent.compile_s,
        spent.compile_count,
        spent.execute_s,
        spent.execute_count,
    )


def warm_up(calls: Callable[[int], Calls], seconds: float) -> None:
    """Whole calls for that long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        calls(1)


def time_runs(calls: Callable[[int], Calls], chosen: Schedule) -> tuple[list[Run], list[float]]:
    """One run a repetition; also the CPU seconds of each."""
    runs, cpu_s = [], []
    for _ in range(chosen.repetitions):
        cpu = time.process_time()
        runs.append(calls(chosen.iterations).run)
        cpu_s.append(time.process_time() - cpu)
    return runs, cpu_s
