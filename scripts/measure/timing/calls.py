"""Runs and times the calls of a session and waits for each, in the same way for every baseline."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any, Protocol


@dataclass(frozen=True)
class Run:
    """`iterations` calls in a row, which took `total_s` seconds including the device's work.

    `trace_s`: time on the host, without compilation. The compile and execute figures are those that the
    runtime counts. They are None if the runtime has no such counters.
    """

    total_s: float
    iterations: int = 1
    trace_s: float | None = None
    compile_s: float | None = None
    compile_count: int | None = None
    execute_s: float | None = None
    execute_count: int | None = None


@dataclass(frozen=True)
class Counters:
    """Counts and seconds of compilations and executions so far, as counted by a runtime."""

    compile_count: int
    compile_s: float
    execute_count: int
    execute_s: float

    def __sub__(self, before: Counters) -> Counters:
        """The difference to earlier counters."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Counters(*(now - then for now, then in pairs))


class Device(Protocol):
    """The device on which calls run and are waited for."""

    def finish(self) -> None:
        """Return when all work that the device was given is done."""

    def counters(self) -> Counters | None:
        """The runtime's counters so far; None if it has none."""


@dataclass(frozen=True)
class Calls:
    """A run of calls, with the results (if kept) and the seconds of the first call. `inside`: whether a call executed
    something before it was waited for."""

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
    """Make a number of calls and wait for each. With `keep`, keep the results of the first one.

    A call ends when its results exist; the next one is not traced or launched before that. `trace_s` is
    the time on the host. With `watch`, compilation is subtracted from it, and for a `lazy` runtime also
    execution (for a value that the model's own code reads). This costs about 0.1 ms per call, so it is
    used for the cold run and for models that read values.
    """
    before = device.counters()
    host_s = inside_s = first_s = 0.0
    first = result = None
    inside = False
    start = time.perf_counter()
    for number in range(iterations):
        result = None  # as in a user's loop: do not keep results during the next call
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
        run = replace(run, trace_s=host_s - inside_s, **asdict(after - before))
    return Calls(run, first, first_s, inside)
