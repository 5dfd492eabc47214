"""The file of a timed group: the latencies of its members, to and from JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from scripts.core import atomic
from scripts.measure.timing import ratios, worker
from scripts.measure.timing.turns import Timed

P90_CALLS, P99_CALLS = 64, 662
"""The calls that a 90th and a 99th percentile need (MLPerf inference rules, early stopping)."""


@dataclass(frozen=True)
class MemberTiming:
    """A member of a group. `status`, `reason`, `detail`: the outcome of its timing. `part`: the members of one part were timed
    in turns with each other.

    `values_ms`: its latency in each generation that counts (ratios.undisturbed). `uncounted_ms`: in each of the others, which nothing
    else is made from (PartTiming.counted has the places of both). `anchor_ms`: those of the anchor of its
    part, in the same generations; empty if there is none. `turns`, `calls`: slices and calls in these generations.
    `p50_ms` and so on: percentiles of all these calls, None where they are too few. `peak_rss_mb`: peak memory of its
    process, MiB. `leaked_bytes`: of memory that each call leaves behind in every process (worker.Held).
    """

    status: str = "ok"
    reason: str = ""
    detail: str = ""
    part: int = 0
    values_ms: tuple[float, ...] = ()
    uncounted_ms: tuple[float, ...] = ()
    anchor_ms: tuple[float, ...] = ()
    turns: int = 0
    calls: int = 0
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    peak_rss_mb: float | None = None
    leaked_bytes: int | None = None


@dataclass(frozen=True)
class PartTiming:
    """Members that were timed in turns. `generations`: all of them; `counted`: the numbers of those that count.
    `control`: the member that was there twice ("" if none was), and the latencies of both processes."""

    generations: int
    counted: tuple[int, ...]
    control: str = ""
    control_ms: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())


@dataclass(frozen=True)
class GroupTiming:
    """`members` by the names of their cells. `anchor`: the member that all parts have, through which other groups are
    compared ("" if there is none). `verified`: the digest of what verified each member, by cell. `rule`: how it was
    timed. `due`: that of the job (fingerprint.due). `started`: when, in seconds since the epoch. `foreign`,
    `steal`: the time of other processes and of other guests, as shares of the time of the cores. `load`: the highest load average of
    the machine (MachineLoad)."""

    started: float
    rule: str
    anchor: str
    members: Mapping[str, MemberTiming]
    parts: tuple[PartTiming, ...]
    verified: Mapping[str, str] = field(default_factory=dict)
    due: str = ""
    foreign: float = 0.0
    steal: float = 0.0
    load: float = 0.0

    def write(self, path: Path) -> None:
        atomic.write_json(path, asdict(self))

    def noise(self, number: int) -> float | None:
        """The noise of a part (ratios.noise): of its members, with the second process of the control."""
        part = self.parts[number]
        values = {
            name: own.values_ms
            for name, own in self.members.items()
            if own.part == number and len(own.values_ms) == len(part.counted)
        }
        return ratios.noise(values | ({"": part.control_ms[1]} if part.control else {}))


def part_of(
    timed: Mapping[str, Timed], control: str, twin: str, anchor: str, number: int
) -> tuple[PartTiming, dict[str, MemberTiming]]:
    """The timing of a part. `twin`: the name of the second process of the member `control`, if it has one."""
    values = latencies(timed)
    kept = ratios.counted(values)
    kept_ms = {name: tuple(row[at] for at in kept) for name, row in values.items()}
    left_ms = {
        name: tuple(ms for at, ms in enumerate(row) if at not in kept)
        for name, row in values.items()
    }
    members = {
        name: replace(
            _member(member, kept, kept_ms.get(name, ()), kept_ms.get(anchor, ()), number),
            uncounted_ms=left_ms.get(name, ()),
        )
        for name, member in timed.items()
        if name != twin
    }
    generations = max((len(row) for row in values.values()), default=0)
    pair = (kept_ms.get(control, ()), kept_ms.get(twin, ()))
    controlled = (control, pair) if all(pair) else ()
    return PartTiming(generations, tuple(kept), *controlled), members


def latencies(timed: Mapping[str, Timed]) -> dict[str, list[float]]:
    """The latency of each member in each generation, in milliseconds, of those that have all generations."""
    by_name = {
        name: [ratios.undisturbed(generation.each_s) * 1e3 for generation in member.generations]
        for name, member in timed.items()
        if member.ended is None and member.generations
    }
    most = max(map(len, by_name.values()), default=0)
    return {name: row for name, row in by_name.items() if len(row) == most}


def _member(
    timed: Timed,
    kept: Sequence[int],
    values: tuple[float, ...],
    anchor: tuple[float, ...],
    part: int,
) -> MemberTiming:
    if (ended := timed.ended) is not None:
        return MemberTiming(ended.status, ended.reason, ended.detail, part)
    own = [timed.generations[at] for at in kept]
    calls = sorted(s * 1e3 for generation in own for s in generation.each_s)
    return MemberTiming(
        part=part,
        values_ms=values,
        anchor_ms=anchor,
        turns=sum(generation.turns for generation in own),
        calls=len(calls),
        p50_ms=statistics.median(calls),
        p90_ms=_percentile(calls, 0.90) if len(calls) >= P90_CALLS else None,
        p99_ms=_percentile(calls, 0.99) if len(calls) >= P99_CALLS else None,
        peak_rss_mb=timed.peak_rss_mb,
        leaked_bytes=worker.leak_of_processes(
            [generation.left_bytes for generation in timed.generations]
        ),
    )


def _percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that this share of the values does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1]
