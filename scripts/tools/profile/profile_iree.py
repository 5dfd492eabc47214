"""Write how the time of a module's call is divided among its dispatches, and what they compute.

Each dispatch has its time, from the profiler of IREE's runtime (iree-benchmark-module, iree-profile), its workgroups ("tiles"), the
operators of the captured graph that it computes, and the nn.Modules that they come from. The program is compiled again up to the stream
phase, with the flags of the target, to find out which operations a dispatch computes. No row of the results has these times.
"""

from __future__ import annotations

import bisect
import itertools
import json
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, checkout, exits, machine, process, requests
from scripts.core.commands import option
from scripts.core.requests import Folders
from scripts.frontends.lowering.locations import Locations
from scripts.iree import session
from scripts.iree.compile_options import CompileRequest
from scripts.iree.session import Module, NoDevice, device_info
from scripts.iree.tools import printed
from scripts.tools.profile import rounds, sites
from scripts.tools.profile.rounds import NANOSECOND, CallTimes, Run

MODES = "queue-events,host-execution,executable-metadata"
"""What the runtime records. The local drivers do not have dispatch-events."""
LEAST, EVENTS = 5, 100_000
"""Calls that are recorded at least, and dispatches at most if these are more."""


@dataclass(frozen=True, kw_only=True)
class ModuleProfileRequest(CompileRequest):
    """A module with what it is called with, and the program that it was compiled of. `locations`: locations.json of the program's export. `in_turns`: in turns with the other rows of a group (profile_group.py)."""

    vmfb: Path
    weights: Path
    inputs: Path
    signature: Path
    device: str = option(help="IREE device URI: local-task")
    threads: int = machine.threads_option()
    locations: Path
    in_turns: bool = False


@dataclass(frozen=True)
class Event:
    """One run of a dispatch. `start_ns`: on the host's clock; `ns`: from its start to its end; `tiles`: its workgroups; `tile_ns`:
    the time of all workgroups together, on any thread."""

    function: str
    start_ns: int
    ns: int
    tiles: int
    tile_ns: int

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.ns


def profile_iree(args: ModuleProfileRequest, folders: Folders) -> None:
    """Write the profile. Exits if the device is absent, or the locations, as in results from before they were written."""
    try:
        device_info(args.device, args.threads)
    except NoDevice as error:
        exits.fail(f"no device {args.device}: {error}", exits.UNAVAILABLE)
    if not args.locations.exists():
        exits.fail(
            f"{args.locations} does not exist: the program was exported by an older version; export it again "
            f"({checkout.run_command('profile', options='--forcerun export_program')})"
        )
    located = Locations.from_json(atomic.read_json(args.locations))
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="profile-") as folder:
        scratch = Path(folder).absolute()
        dispatch_sites = sites.sites(args.program, args.compiler_flags(), scratch / "phases")
        functions = [site.function for site in dispatch_sites]
        inputs = session.raw_inputs(args.inputs, args.signature, scratch / "inputs")
        module = Module(args.vmfb, args.weights, args.device)
        command = session.command_line(module, inputs, args.threads)
        dispatches: list[dict[str, Any]] = []

        def take(calls: int) -> list[CallTimes]:
            number = max(LEAST, min(calls, EVENTS // max(1, len(functions))))
            dispatches[:], times = per_call(*_run(command, scratch, number), functions)
            return times

        measured = rounds.profiled(
            session.load_command(command[1:]),
            take,
            lambda place: dispatches[place] | {"nodes": sites.nodes(dispatch_sites[place], located)},
            "dispatches",
            args.in_turns,
        )  # fmt: skip
    about = {"runtime": "iree", "threads": args.threads, "kinds": dict(located.modules)}
    rounds.write(folders.results, about | measured, args.in_turns)


def _run(command: Sequence[str], folder: Path, calls: int) -> tuple[list[Event], list[int]]:
    """Profile calls of a module, with files in `folder`: the dispatches in the order in which they were queued, and the host's times
    at which work was queued, ns. `command`: that benchmarks the module. Exits as the tools do if they fail."""
    recorded = folder / "profile.ireeprof"
    flags = (f"--device_profiling_mode={MODES}", f"--device_profiling_output={recorded}")
    process.require_tool([*command, f"--benchmark_min_time={calls}x", *flags])
    queued = _rows(recorded, "queue")
    dispatched = events(_rows(recorded, "executable"), queued)
    if not dispatched:
        exits.fail(f"the profile has no dispatch: {' '.join(command)}")
    return dispatched, [row["host_time_ns"] for row in queued if row["type"] == "queue_event"]


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
) -> tuple[list[dict[str, Any]], list[CallTimes]]:
    """The dispatches of one call (`busy`: threads that worked on it on average, in its time of CallTimes; None if that is not known), and the times of every call but the first and the last, by the places of the dispatches.

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
    shares = [CallTimes.of_runs(0.0, _runs(call), 1.0).kernels_ms for call in placed]
    dispatches = []
    for place, name in enumerate(functions):
        busy = [call[place].tile_ns / ns[place] for call, ns in zip(placed, shares, strict=True) if ns[place]]  # fmt: skip
        threads = statistics.median(busy) if busy else None
        dispatches.append({"function": name, "tiles": placed[0][place].tiles, "busy": threads})
    return dispatches, list(_timelines(placed, sorted(queued_ns)))


def _in_order(call: Sequence[Event], functions: Sequence[str]) -> list[Event]:
    """The dispatches of a call in the order of the program."""
    runs: dict[str, list[Event]] = defaultdict(list)
    for event in call:
        runs[event.function].append(event)
    return [runs[name].pop(0) for name in functions]


def _runs(call: Sequence[Event]) -> list[Run]:
    return [(place, event.start_ns, event.end_ns) for place, event in enumerate(call)]


def _timelines(calls: Sequence[Sequence[Event]], queued_ns: Sequence[int]) -> Iterator[CallTimes]:
    """The times of every call that lies between two others: the first one prepares, and the end of the last one is not known."""
    begun = []
    for before in calls[:-1]:
        last = max(event.end_ns for event in before)
        at = bisect.bisect_right(queued_ns, last)
        begun.append(queued_ns[at] if at < len(queued_ns) else last)
    for call, (start, end) in zip(calls[1:-1], itertools.pairwise(begun), strict=True):
        yield CallTimes.of_runs((end - start) * NANOSECOND, _runs(call), NANOSECOND)


if __name__ == "__main__":
    requests.run(ModuleProfileRequest, profile_iree)
