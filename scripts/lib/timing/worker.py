"""A process that has loaded a program and times calls when the coordinator of its group asks (turns.py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scripts.lib.core import channel, process

READY, LOAD, SLICE, CHECK = "ready", "load", "slice", "check"
"""What a worker is asked for: `ready` is its own first message; `load` loads another program; `slice` times calls; `check`
asks it to end with an error if the calls that it made do not represent the program."""


@dataclass(frozen=True)
class Program:
    """A program that is timed. `call`: one call. `finish`: returns when the device has finished it. `check`: exits if the
    calls do not represent the program. `compilations`: how often the runtime has compiled so far (None: it does not
    tell)."""

    call: Callable[[], object]
    finish: Callable[[], object] = lambda: None
    check: Callable[[], object] = lambda: None
    compilations: Callable[[], int | None] = lambda: None


def serve(
    call: Callable[[], object],
    finish: Callable[[], object] = lambda: None,
    check: Callable[[], object] = lambda: None,
    compilations: Callable[[], int | None] = lambda: None,
) -> None:
    """Time calls on request until the coordinator closes the channel. For the arguments, see Program."""
    _answer(Program(call, finish, check, compilations))


def serve_programs(load: Callable[[Any], Program]) -> None:
    """The same for many programs, one at a time. `load`: loads the program that a request describes, after the one before
    was released."""
    _answer(None, load)


def _answer(program: Program | None, load: Callable[[Any], Program] | None = None) -> None:
    process.reset_peak_rss()
    channel.answer({READY: True})
    for request in channel.requests():
        if load and LOAD in request:
            program = None
            program = load(request[LOAD])
            channel.answer({LOAD: True})
        elif program and CHECK in request:
            program.check()
            channel.answer({CHECK: True, "peak_rss_mb": process.peak_rss_mb()})
        elif program:
            channel.answer(
                time_slice(program.call, program.finish, program.compilations, **request[SLICE])
            )


def time_slice(
    call: Callable[[], object],
    finish: Callable[[], object],
    compilations: Callable[[], int | None],
    calls: int,
    uncounted: int,
    seconds: float,
) -> dict[str, Any]:
    """Make `uncounted` calls, then time `calls` calls one by one, and wait for each.

    No call is begun after `seconds` seconds: what was planned for fast calls ends here if they have become slow.
    Returns the seconds of each timed call, the CPU seconds of all of them, and how often the runtime compiled meanwhile.
    """
    compiled = compilations()
    cpu = time.process_time()
    clock = time.perf_counter
    end = clock() + seconds
    for _ in range(uncounted):
        call()
        finish()
        if clock() > end:
            break
    each_s = []
    for _ in range(calls):
        start = clock()
        call()
        finish()
        now = clock()
        each_s.append(now - start)
        if now > end:
            break
    return {
        "each_s": each_s,
        "cpu_s": time.process_time() - cpu,
        "compiled": (compilations() or 0) - (compiled or 0),
    }
