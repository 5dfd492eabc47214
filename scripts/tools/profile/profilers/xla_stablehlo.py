"""Profiles a StableHLO program on XLA's CPU client by jax.profiler, which times the thunks: the scheduled instructions of the compiled program.

The program is compiled with locations, so an instruction, and each of those that were fused into it, says which line of the program it
is of. locations.json of the export has the node of the captured graph of each line.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.profiler import ProfileData, ProfileOptions

from scripts.baselines.sessions.runtime import Work
from scripts.core import atomic
from scripts.frontends.lowering.locations import Locations
from scripts.tools.profile.hlo import mapped
from scripts.tools.profile.profilers import PRODUCTS, Kernel, Profiler, base_name
from scripts.tools.profile.rounds import NANOSECOND, CallTimes, Run, timed_ms

_END = "end: "
_LOOP = re.compile(r"(?:while|call|conditional)\b")


def open_profiler(work: Work, runtime: Any, device: Any) -> Profiler:
    """The program of a cell, compiled by XLA."""
    session = runtime.open_session(work, device, located=True)
    assert work.program is not None
    located = Locations.from_json(atomic.read_json(work.program.parent / "locations.json"))
    products = {
        node.module: node
        for node in located.lines.values()
        if node.module is not None and base_name(node.operator) in PRODUCTS
    }
    computed = mapped(
        session.instructions(), located.lines, products, session.input_count, session.weight_names
    )
    kernels = {name: Kernel(name, *about) for name, about in computed.items()}

    def take(calls: int) -> list[CallTimes]:
        options = ProfileOptions()
        options.python_tracer_level = 0
        options.host_tracer_level = 3
        with tempfile.TemporaryDirectory(prefix="profile-") as folder:
            with jax.profiler.trace(folder, profiler_options=options):
                walls_ms = timed_ms(session, 1 + calls)
            (file,) = Path(folder).rglob("*.xplane.pb")
            runs = thunks(ProfileData.from_file(str(file)), kernels)
        times = zip(walls_ms, runs, strict=True)
        return [CallTimes.of_runs(ms, run, NANOSECOND) for ms, run in times][1:]

    return Profiler(session, take, located.modules)


def thunks(recorded: Any, kernels: Mapping[str, Kernel]) -> list[list[Run]]:
    """The thunks of each execution, in its order. Another thread may end a thunk than starts it. One that contains others (a loop) is left out."""
    started: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    ended: dict[str, list[int]] = defaultdict(list)
    for plane in recorded.planes:
        for line in plane.lines:
            for event in line.events:
                about = dict(event.stats)
                if event.name.startswith(_END):
                    ended[event.name.removeprefix(_END)].append(int(event.start_ns))
                elif "hlo_op" in about:
                    start = int(event.start_ns)
                    started[event.name].append((start, start + int(event.duration_ns), about["run_id"]))  # fmt: skip
    runs: dict[int, list[Run]] = defaultdict(list)
    for name, spans in started.items():
        spans.sort()
        # An asynchronous thunk ends where its successors may start; one of a sequence has no such event.
        ends = sorted(ended[name]) if len(ended[name]) == len(spans) else [end for _, end, _ in spans]  # fmt: skip
        for (start, _, run), end in zip(spans, ends, strict=True):
            runs[run].append((kernels.get(name, Kernel(name)), start, end))
    in_order = sorted(runs.values(), key=lambda run: min(start for _, start, _ in run))
    return [[thunk for thunk in run if not _is_around_others(thunk, run)] for run in in_order]


def _is_around_others(thunk: Run, run: Sequence[Run]) -> bool:
    kernel, start, end = thunk
    inside = (start <= other[1] and other[2] <= end for other in run if other is not thunk)
    return bool(_LOOP.match(kernel.name)) and any(inside)
