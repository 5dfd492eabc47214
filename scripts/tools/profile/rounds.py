"""Profiles a program in rounds: calls without a profiler, then profiled ones. Rounds of several programs are taken in turns (profile_group.py).

The calls without a profiler are the control. They are the same in every round, and the same as those of the program's row: where they
differ, something has disturbed the profile (account.doubts).
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands
from scripts.core.machine import load_watched
from scripts.measure.timing.worker import READY

ROUNDS = 4
"""Rounds of a profile."""
TURN = "turn"
"""The request to take a round; the one after the last round asks for the profile."""


def turns(are_given: bool) -> Iterator[int]:
    """The numbers of ROUNDS rounds. `are_given`: each begins when the coordinator of the group asks for it, which hears when it is over; it ends when
    the coordinator asks once more."""
    if not are_given:
        yield from range(ROUNDS)
        return
    commands.answer_coordinator({READY: True})
    given = commands.coordinator_requests()
    for number in range(ROUNDS):
        next(given, None)
        yield number
        commands.answer_coordinator({TURN: number})
    next(given, None)


def write(folder: Path, profile: Mapping[str, Any], in_turns: bool) -> None:
    """Write a profile, and answer the request for it."""
    atomic.write_json(folder / "profile.json", profile)
    if in_turns:
        commands.answer_coordinator({TURN: ROUNDS})


Run = tuple[Any, float, float]
"""A kernel, and when it began and ended, on the clock of a profiler."""


NANOSECOND, MICROSECOND = 1e-6, 1e-3
"""In milliseconds: units of the clocks of profilers."""


@dataclass(frozen=True)
class CallTimes:
    """Where the milliseconds of a call went: `ms` is the sum of the others.

    `kernels_ms`: by kernel, while it ran (two that run at once share that time). `between_ms`: between the first and the last kernel
    while none ran. `outside_ms`: before the first and after the last one.
    """

    ms: float
    kernels_ms: Mapping[Hashable, float]
    between_ms: float
    outside_ms: float

    @classmethod
    def of_runs(cls, ms: float, runs: Iterable[Run], unit_ms: float) -> CallTimes:
        """The times of a call that took `ms` milliseconds. `runs`: of its kernels; `unit_ms`: milliseconds of a unit of their clock."""
        runs = list(runs)
        edges = sorted((at, place) for place, (_, *ends) in enumerate(runs) for at in ends)
        kernels_ms = dict.fromkeys((kernel for kernel, _, _ in runs), 0.0)
        running, begun, between = set[int](), edges[0][0] if edges else 0, 0.0
        before = begun
        for at, place in edges:
            for other in running:
                kernels_ms[runs[other][0]] += (at - before) / len(running) * unit_ms
            between += 0 if running else at - before
            before = at
            running ^= {place}
        return cls(ms, kernels_ms, between * unit_ms, ms - (before - begun) * unit_ms)


CALLS, SHORT_S, LONG_S = 5, 0.3, 10.0
"""Calls of a round, and seconds that they fill at least, if they then do not take more than LONG_S."""


def timed_ms(call: Callable[[], object], calls: int) -> list[float]:
    """Milliseconds of each of some calls."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def quiet_ms(call: Callable[[], object], calls: int) -> float:
    """Milliseconds of a call: the mean of the faster half of `calls` calls, as in `quiet_mean`, after one that does not count."""
    times = sorted(timed_ms(call, 1 + calls)[1:])
    return statistics.fmean(times[: (calls + 1) // 2])


def quiet_mean(calls: Sequence[CallTimes]) -> CallTimes:
    """The mean of the faster half of some calls: other work only adds time to a call. Its parts add up as those of each call do,
    which medians of the parts would not."""
    quiet = sorted(calls, key=lambda call: call.ms)[: (len(calls) + 1) // 2]
    kernels_ms: dict[Hashable, float] = defaultdict(float)
    for call in quiet:
        for kernel, ms in call.kernels_ms.items():
            kernels_ms[kernel] += ms / len(quiet)
    ms, between, outside = (
        sum(getattr(call, name) for call in quiet) / len(quiet)
        for name in ("ms", "between_ms", "outside_ms")
    )
    return CallTimes(ms, dict(kernels_ms), between, outside)


def profiled(
    call: Callable[[], object],
    take: Callable[[int], Sequence[CallTimes]],
    described: Callable[[Any], Mapping[str, Any]],
    kernels: str = "kernels",
    in_turns: bool = False,
) -> dict[str, Any]:
    """Take a profile. `call`: make a call without a profiler. `take`: make about so many with it. `described`: what profile.json says about a kernel beside its times, in a list named `kernels`.
    `in_turns`: see `turns`.

    Returns what profile.json says. `call_ms` and `profiled_ms`: milliseconds of a call without and with the
    profiler, in the fastest round; `control_ms`: those without it in each round and after the last one; `foreign` and `load`: as in GroupTiming, during the rounds;
    `rounds_ms`, `between_ms`, `outside_ms`, and `rounds_ms` of each kernel: by round, as in CallTimes; `ms` of a kernel: in the fastest round.
    """
    control_ms, rounds, loads = [], [], []
    each_s = timed_ms(call, 2)[1] / 1e3
    calls = max(1, min(max(CALLS, int(SHORT_S / each_s)), int(LONG_S / each_s)))
    for number in turns(in_turns):
        with load_watched() as load:
            control_ms.append(quiet_ms(call, calls))
            rounds.append(quiet_mean(take(calls)))
            if number == ROUNDS - 1:
                control_ms.append(quiet_ms(call, calls))
        loads.append(load)
    fastest = min(rounds, key=lambda times: times.ms)
    keys = dict.fromkeys(key for times in rounds for key in times.kernels_ms)
    return {
        "call_ms": min(control_ms),
        "profiled_ms": fastest.ms,
        "control_ms": control_ms,
        "foreign": statistics.fmean(load.others().foreign for load in loads),
        "load": max(load.average for load in loads),
        "rounds_ms": [times.ms for times in rounds],
        "between_ms": [times.between_ms for times in rounds],
        "outside_ms": [times.outside_ms for times in rounds],
        kernels: [
            {
                **described(key),
                "ms": fastest.kernels_ms.get(key, 0.0),
                "rounds_ms": [times.kernels_ms.get(key, 0.0) for times in rounds],
            }
            for key in keys
        ],
    }
