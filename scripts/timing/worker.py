"""A process that has loaded a program and times calls when the coordinator of its group asks (turns.py)."""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scripts.core import commands, process
from scripts.timing.leaks import Held

READY, LOAD, FIRST, SLICE, CHECK, REST, WAKE = (
    "ready",
    "load",
    "first",
    "slice",
    "check",
    "rest",
    "wake",
)
"""The requests to a worker: `ready` is the first message, from the worker; `load` loads another program; `first` makes the first call; `slice` times calls; `check`
asks it to end with an error if the calls that it made do not represent the program; `rest` ends a generation, and `wake`
begins the next one."""


@dataclass(frozen=True)
class Program:
    """A program that is timed. `call`: one call. `finish`: returns when the device has finished it. `settle`: ends what the
    first call has left at work in the background. `check`: exits if the calls do not represent the program. `compilations`: how often the runtime has compiled so far (None: it does not
    tell)."""

    call: Callable[[], object]
    finish: Callable[[], object] = lambda: None
    settle: Callable[[], object] = lambda: None
    check: Callable[[], object] = lambda: None
    compilations: Callable[[], int | None] = lambda: None


def serve(program: Program) -> None:
    """Time calls on request until the coordinator closes the channel."""
    _answer(program)


def serve_generations(load: Callable[[], Program]) -> None:
    """Time calls of a program that is loaded anew for each generation, in a process forked from this one.

    What this process has built is built once. If a library has started threads, it cannot be forked (a fork copies only the
    calling thread): then it serves one generation itself. A forked process that ends ends this one in the same way.
    """
    while True:
        if len(os.listdir("/proc/self/task")) > 1:
            _answer(load())
            return
        if not (pid := os.fork()):
            process.die_with_parent()
            rested = _answer(load(), rests=True)
            os._exit(0 if rested else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code < 0:
            faulthandler.disable()  # the forked process has printed its stack
            os.kill(os.getpid(), -code)
        if code:
            os._exit(code)
        commands.answer_coordinator({REST: True})
        if next(commands.coordinator_requests(), None) is None:
            return


def serve_programs(load: Callable[[Any], Program]) -> None:
    """Answer the requests of the coordinator for many programs, one at a time. `load`: loads the program that a request describes, after the one before
    was released."""
    _answer(None, load)


def _answer(
    program: Program | None,
    load: Callable[[Any], Program] | None = None,
    rests: bool = False,
) -> bool:
    """Answer requests until the coordinator closes the channel, or, returning True, until it requests a rest."""
    process.reset_peak_rss()
    held = Held()
    commands.answer_coordinator({READY: True, REST: rests})
    for request in commands.coordinator_requests():
        if REST in request:
            return True
        if load and LOAD in request:
            program = None
            program, held = load(request[LOAD]), Held()
            commands.answer_coordinator({LOAD: True})
        elif program and CHECK in request:
            program.check()
            memory = {"peak_rss_mb": process.peak_rss_mb(), "left_bytes": held.left_per_call()}
            commands.answer_coordinator({CHECK: True, **memory})
        elif program and FIRST in request:
            answer = time_slice(program, calls=1, uncounted=0, seconds=0.0)
            program.settle()
            process.reset_peak_rss()  # without what the first call needs to compile
            commands.answer_coordinator(answer)
        elif program:
            answer = time_slice(program, **request[SLICE])
            commands.answer_coordinator(answer)
            held.add(len(answer["each_s"]) + request[SLICE]["uncounted"], process.private_bytes())
    return False


def time_slice(program: Program, calls: int, uncounted: int, seconds: float) -> dict[str, Any]:
    """Make `uncounted` calls, then time `calls` calls one by one, and wait for each.

    No call is begun after `seconds` seconds: what was planned for fast calls ends here if they have become slow.
    Returns the seconds of each timed call, the CPU seconds of all of them, and how often the runtime compiled meanwhile.
    """
    call, finish = program.call, program.finish
    compiled = program.compilations()
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
        "compiled": (program.compilations() or 0) - (compiled or 0),
    }
