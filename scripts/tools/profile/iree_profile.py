"""The time of every dispatch of a module, from the profiler of IREE's runtime (iree-benchmark-module, iree-profile)."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import exits, machine, process
from scripts.core.commands import option
from scripts.iree import session
from scripts.iree.session import Module, NoDevice, device_info
from scripts.iree.tools import printed

MODES = "queue-events,host-execution,executable-metadata"
"""What the runtime records. The local drivers do not have dispatch-events."""
MS = 1e-6
"""Milliseconds of a nanosecond."""
CALLS = (
    *("--benchmark_min_warmup_time=1e-06", "--benchmark_min_time=0.3s"),
    *("--benchmark_repetitions=3", "--benchmark_report_aggregates_only=false"),
)
"""What is called: three times as many calls as fill 0.3 s, after one that does not count."""


@dataclass(frozen=True)
class Event:
    """One run of a dispatch. `ns`: from its start to its end; `tiles`: its workgroups; `tile_ns`: the time of all
    workgroups together, on any thread."""

    function: str
    ns: int
    tiles: int
    tile_ns: int


@dataclass(frozen=True)
class Dispatch:
    """One dispatch of the program, per call. `busy`: threads that worked on it, on average; None if it is not known."""

    function: str
    ms: float
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


def run(called: CalledModule, folder: Path) -> tuple[list[Event], float]:
    """Profile CALLS of a module, with files in `folder`: the dispatches in the order in which they were queued, and the
    median milliseconds of a call under the profiler. Exits as the tools do if they fail."""
    recorded, module = folder / "profile.ireeprof", called.module
    flags = (f"--device_profiling_mode={MODES}", f"--device_profiling_output={recorded}")
    each_ms = _called_ms(called, folder, *flags)
    recorded_events = events(_rows(recorded, "executable"), _rows(recorded, "queue"))
    if not recorded_events:
        exits.fail(f"the profile of {module.vmfb} has no dispatch on {module.device}")
    return recorded_events, statistics.median(each_ms)


def plain_ms(called: CalledModule, folder: Path) -> float:
    """Milliseconds of a call of a module without the profiler, of CALLS: the fastest repetition. Exits as the tool does if it
    fails."""
    return min(_called_ms(called, folder))


def _called_ms(called: CalledModule, folder: Path, *flags: str) -> list[float]:
    """Milliseconds of a call in each repetition of CALLS."""
    report, inputs = folder / "google-benchmark.json", called.raw_inputs(folder / "inputs")
    process.require_tool(
        [
            *session.command_line(called.module, inputs, called.threads),
            *CALLS,
            *flags,
            *(f"--benchmark_out={report}", "--benchmark_out_format=json"),
        ]
    )
    return session.read_ms(report)


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
            row["duration_ns"],
            row["tile_count"],
            row["tile_duration_sum_ns"],
        )
        for row in rows
    ]


def per_call(recorded: Sequence[Event], functions: Sequence[str]) -> tuple[list[Dispatch], int]:
    """The dispatches of one call, each with its median over the calls but the first, and the number of calls.

    `functions`: those of one call, in the order of the program. A function that is called several times is
    told apart by the order. Raises ValueError if the events are not those of a whole number of calls.
    """
    counts = Counter(functions)
    seen: dict[str, list[Event]] = defaultdict(list)
    for event in recorded:
        seen[event.function].append(event)
    calls = {len(seen[name]) / count for name, count in counts.items()}
    unknown = sorted(seen.keys() - counts.keys())
    if unknown or len(calls) != 1 or not min(calls).is_integer():
        raise ValueError(
            f"the profile has {len(recorded)} dispatches, which are not calls of {len(functions)} dispatches each"
            + (f" ({unknown[0]} is not in the program)" if unknown else "")
        )
    number = int(min(calls))
    first = 1 if number > 1 else 0
    at: Counter[str] = Counter()
    dispatches = []
    for name in functions:
        runs = seen[name][at[name] :: counts[name]][first:]
        at[name] += 1
        ns = statistics.median(run.ns for run in runs)
        busy = statistics.median(run.tile_ns / run.ns for run in runs if run.ns) if ns else None
        dispatches.append(Dispatch(name, ns * MS, runs[0].tiles, busy))
    return dispatches, number - first
