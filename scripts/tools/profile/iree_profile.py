"""The time of every dispatch of a module, from the profiler of IREE's runtime (iree-benchmark-module, iree-profile)."""

from __future__ import annotations

import bisect
import itertools
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import exits, machine, process
from scripts.core.commands import option
from scripts.iree import session
from scripts.iree.session import Module, NoDevice, device_info
from scripts.iree.tools import printed
from scripts.tools.profile.rounds import CallTimes, shared_ns

MODES = "queue-events,host-execution,executable-metadata"
"""What the runtime records. The local drivers do not have dispatch-events."""
MS = 1e-6
"""Milliseconds of a nanosecond."""
LEAST, EVENTS = 5, 100_000
"""Calls that are recorded at least, and dispatches at most if these are more."""


@dataclass(frozen=True)
class Event:
    """One run of a dispatch. `start_ns`: on the host's clock; `ns`: from its start to its end; `tiles`: its workgroups; `tile_ns`:
    the time of all workgroups together, on any thread."""

    function: str
    start_ns: int
    ns: int
    tiles: int
    tile_ns: int


@dataclass(frozen=True)
class Dispatch:
    """One dispatch of the program. `busy`: threads that worked on it on average, in its time of CallTimes; None if it is not known."""

    function: str
    tiles: int
    busy: float | None


@dataclass(frozen=True, kw_only=True)
class CalledModule:
    """A module, and what it is called with: fields of the requests of stages that look into its calls."""

    vmfb: Path
    weights: Path
    inputs: Path
    signature: Path
    device: str = option(help="IREE device URI: local-task")
    threads: int = machine.threads_option()

    @property
    def module(self) -> Module:
        return Module(self.vmfb, self.weights, self.device)

    def require_device(self) -> None:
        """Exit if this machine does not have the device."""
        try:
            device_info(self.device, self.threads)
        except NoDevice as error:
            exits.fail(f"no device {self.device}: {error}", exits.UNAVAILABLE)

    def raw_inputs(self, folder: Path) -> list[str]:
        """Write the inputs as raw bytes; return the flags of the tools that name them."""
        return session.raw_inputs(self.inputs, self.signature, folder)

    def command_line(self, folder: Path) -> list[str]:
        """The command that benchmarks the module, whose inputs are written to `folder`."""
        return session.command_line(self.module, self.raw_inputs(folder / "inputs"), self.threads)

    def load(self, folder: Path) -> Callable[[], object]:
        """The module, loaded as for timing: a function that makes one call."""
        return session.load_command(self.command_line(folder)[1:])


def run(
    called: CalledModule, folder: Path, calls: int, dispatches: int
) -> tuple[list[Event], list[int]]:
    """Profile `calls` calls of a module, each of `dispatches` dispatches, or as many as there are EVENTS for, with files in `folder`: the dispatches in
    the order in which they were queued, and the host's times at which work was queued, ns. Exits as the tools do if they fail."""
    recorded, module = folder / "profile.ireeprof", called.module
    flags = (f"--device_profiling_mode={MODES}", f"--device_profiling_output={recorded}")
    number = max(LEAST, min(calls, EVENTS // max(1, dispatches)))
    process.require_tool([*called.command_line(folder), f"--benchmark_min_time={number}x", *flags])
    queued = _rows(recorded, "queue")
    recorded_events = events(_rows(recorded, "executable"), queued)
    if not recorded_events:
        exits.fail(f"the profile of {module.vmfb} has no dispatch on {module.device}")
    return recorded_events, [row["host_time_ns"] for row in queued if row["type"] == "queue_event"]


def _rows(recorded: Path, kind: str) -> list[dict[str, Any]]:
    """The rows that iree-profile prints for one of its commands."""
    lines = printed("iree-profile", kind, "--format=jsonl", str(recorded)).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def events(executables: Iterable[dict], queued: Iterable[dict]) -> list[Event]:
    """The dispatches from the rows of `iree-profile executable` and `iree-profile queue`, in the order in which they
    were queued."""
    names = {
        (row["executable_id"], row["function_ordinal"]): row["key"]
        for row in executables
        if row["type"] == "executable_function"
    }
    rows = [
        row
        for row in queued
        if row["type"] == "host_execution_event" and row["op"] == "dispatch" and row["valid"]
    ]
    rows.sort(key=lambda row: (row["submission_id"], row["command_index"]))
    return [
        Event(
            names[row["executable_id"], row["function_ordinal"]],
            row["start_host_time_ns"],
            row["duration_ns"],
            row["tile_count"],
            row["tile_duration_sum_ns"],
        )
        for row in rows
    ]


def per_call(
    recorded: Sequence[Event], queued_ns: Sequence[int], functions: Sequence[str]
) -> tuple[list[Dispatch], list[CallTimes]]:
    """The dispatches of one call, and the times of every call but the first and the last, by the places of the dispatches.

    `queued_ns`: the host's times at which work was queued; a call begins with the first of them after the dispatches of the call
    before. `functions`: those of one call, in the order of the program. A function that is called several times is
    told apart by the order. Raises ValueError if the events are not those of a whole number of calls.
    """
    size = len(functions)
    unknown = sorted({event.function for event in recorded} - set(functions))
    calls = [recorded[at : at + size] for at in range(0, len(recorded), size)]
    expected = Counter(functions)
    if unknown or any(Counter(event.function for event in call) != expected for call in calls):
        raise ValueError(
            f"the profile has {len(recorded)} dispatches, which are not calls of {size} dispatches each"
            + (f" ({unknown[0]} is not in the program)" if unknown else "")
        )
    placed = [_in_order(call, functions) for call in calls]
    shares = [
        shared_ns([(event.start_ns, event.start_ns + event.ns) for event in call])
        for call in placed
    ]
    dispatches = []
    for place, name in enumerate(functions):
        busy = [call[place].tile_ns / ns[place] for call, ns in zip(placed, shares, strict=True) if ns[place]]  # fmt: skip
        tiles = placed[0][place].tiles
        dispatches.append(Dispatch(name, tiles, statistics.median(busy) if busy else None))
    return dispatches, list(_timelines(placed, shares, sorted(queued_ns)))


def _in_order(call: Sequence[Event], functions: Sequence[str]) -> list[Event]:
    """The dispatches of a call in the order of the program."""
    runs: dict[str, list[Event]] = defaultdict(list)
    for event in call:
        runs[event.function].append(event)
    return [runs[name].pop(0) for name in functions]


def _timelines(
    calls: Sequence[Sequence[Event]], shares: Sequence[Sequence[float]], queued_ns: Sequence[int]
) -> Iterator[CallTimes]:
    """The times of every call that lies between two others: the first one prepares, and the end of the last one is not known. `shares`: the nanoseconds of
    each dispatch of each call (shared_ns)."""
    begun = []
    for before in calls[:-1]:
        last = max(event.start_ns + event.ns for event in before)
        at = bisect.bisect_right(queued_ns, last)
        begun.append(queued_ns[at] if at < len(queued_ns) else last)
    for call, own, (start, end) in zip(calls[1:-1], shares[1:-1], itertools.pairwise(begun), strict=True):  # fmt: skip
        first = min(event.start_ns for event in call)
        last = max(event.start_ns + event.ns for event in call)
        yield CallTimes(
            (end - start) * MS,
            {place: ns * MS for place, ns in enumerate(own)},
            (last - first - sum(own)) * MS,
            (end - start - (last - first)) * MS,
        )
