"""A process that has loaded a program and times calls when the coordinator of its group asks (turns.py)."""

from __future__ import annotations

import faulthandler
import os
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from scripts.core import commands, process

READY, LOAD, FIRST, SLICE = "ready", "load", "first", "slice"
CHECK, REST, WAKE = "check", "rest", "wake"
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


def serve_generations(load: Callable[[], Program]) -> None:
    """Time calls of a program that is loaded anew for each generation, in a process forked from this one.

    What this process has built is built once. If a library has started threads, it cannot be forked (a fork copies only the
    calling thread): then it serves one generation itself. A forked process that ends ends this one in the same way.
    """
    while True:
        if len(os.listdir("/proc/self/task")) > 1:
            serve(load())
            return
        if not (pid := os.fork()):
            process.die_with_parent()
            rested = serve(load(), rests=True)
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


def serve(
    program: Program | None = None,
    load: Callable[[Any], Program] | None = None,
    rests: bool = False,
) -> bool:
    """Answer requests until the coordinator closes the channel, or, returning True, until it requests a rest (`rests`).

    `load`: loads the program that a request describes, after the one before was released.
    """
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


# Whether calls of a program leave memory behind: by the private memory of its process after each slice of calls.
LEAST_BYTES = 64 * 1024
"""By which memory has to grow in each of the last three quarters of the slices of every process."""
LEAST_SLICES = 12
"""In eager mode, the memory of GPT-2 (prefill, calls of 200 ms) grows in each of its first four calls, and then by up to 12 MB in one
call and back in another: the first five slices look like a leak."""
LEAST_PROCESSES = 2


class Held:
    """The calls that a process has made, and the bytes of its private memory, after each of its slices."""

    def __init__(self) -> None:
        # Numbers of Python would be a leak themselves.
        self._calls, self._bytes = array("q"), array("q")

    def add(self, calls: int, private_bytes: int) -> None:
        """Add a slice of `calls` calls."""
        self._calls.append(calls + (self._calls[-1] if self._calls else 0))
        self._bytes.append(private_bytes)

    def left_per_call(self) -> int | None:
        """The bytes that each call has left; 0 if memory did not grow in each of the last three quarters of the slices, and None if
        there were too few. The first quarter is the warm-up."""
        count = len(self._calls)
        if count < LEAST_SLICES:
            return None
        places = [count // 4, count // 2, 3 * count // 4, count - 1]
        held = [self._bytes[place] for place in places]
        if min(after - before for before, after in pairwise(held)) < LEAST_BYTES:
            return 0
        return round((held[-1] - held[0]) / (self._calls[-1] - self._calls[places[0]]))


def leak_of_processes(left: Sequence[int | None]) -> int | None:
    """The bytes that each call of a program leaves, by those of its processes: the least of them, so 0 if one of them does not grow. None
    if too few are known."""
    known = [size for size in left if size is not None]
    return min(known) if len(known) >= LEAST_PROCESSES else None
