"""Compares two sets of rows: all that has changed, and all that could not be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scripts.measure.timing.ratios import SLOWER, UNDECIDED
from scripts.results.columns import lookup
from scripts.tools.compare import pairs
from scripts.tools.compare.code_changes import CodeChange, PassChange
from scripts.tools.compare.pairs import (
    BROKEN,
    COMPILE_TIME,
    KINDS,
    LATENCY,
    NEWLY_WRONG,
    OF_CODE,
    OF_MODEL,
    Estimate,
    MeanChange,
    NotCompared,
    OutcomeChange,
    Pair,
    Record,
    TimeChange,
    changed,
    difference,
    options_of,
    versions_of,
)

MATTERS = 1.05
"""The default of the ratio of what is timed in turns from which a change matters."""
SAME_PROGRAM = "same code and versions, so the same program"


@dataclass(frozen=True)
class Settings:
    """What counts as a change, the key `compare` of the configuration: ratios after / before from which a change for
    the worse counts; None: never.

    `compile_time`: of programs that were compiled again in turns; `compile_cpu_s`: of one compilation each. `rate`: of false
    discoveries among latencies, and among compile times. `outcomes`: the kinds of outcome changes that count.
    The fields and their defaults are those of docs/comparison.md.
    """

    latency: float | None = MATTERS
    compile_time: float | None = MATTERS
    compile_cpu_s: float | None = 2.0
    compile_rss_mb: float | None = 1.5
    run_rss_mb: float | None = 1.2
    vmfb_bytes: float | None = 1.2
    dispatch_count: float | None = 1.1
    transient_bytes: float | None = 1.0
    constant_bytes: float | None = 1.0
    leaked_bytes: float | None = 2.0
    rmse_vs_fp64: float | None = 2.0
    static_spills: float | None = 1.0
    static_bound_ms: float | None = 1.05
    static_occupancy: float | None = 1.1
    static_matrix_share: float | None = 1.01
    outcomes: tuple[str, ...] = (BROKEN, NEWLY_WRONG)
    rate: float = 0.01


class Amount(NamedTuple):
    """A value of a row of which less is better, and which is not timed in turns. `least`: a smaller absolute
    difference is no change. `path`: its place in a record. `more`: more of it is better."""

    words: str
    unit: str
    least: float
    path: str
    more: bool = False


AMOUNTS = {
    "compile_cpu_s": Amount("CPU time of the compiler", "s", 1.0, "compile.cpu_s"),
    "compile_rss_mb": Amount("memory of the compiler", "MiB", 32.0, "compile.max_rss_mb"),
    "run_rss_mb": Amount("memory", "MiB", 16.0, "run.max_rss_mb"),
    "vmfb_bytes": Amount("size of the module", "bytes", 16384.0, "compile.vmfb_bytes"),
    "dispatch_count": Amount("dispatches", "", 2.0, "compile.dispatch_count"),
    "transient_bytes": Amount("planned memory", "bytes", 1.0, "compile.transient_bytes"),
    "constant_bytes": Amount("constants", "bytes", 1.0, "compile.constant_bytes"),
    "leaked_bytes": Amount(
        "memory that a call leaves behind", "bytes", 1.0, "latency.leaked_bytes"
    ),
    "rmse_vs_fp64": Amount("error against float64", "", 1e-8, "verification.rmse_vs_fp64"),
    "static_spills": Amount("spilled registers", "bytes", 1.0, "compile.static_spills"),
    "static_bound_ms": Amount("bound on the GPU", "ms", 0.0, "compile.static_bound_ms"),
    "static_occupancy": Amount("occupancy", "", 0.01, "compile.static_occupancy", more=True),
    "static_matrix_share": Amount(
        "share on matrix units", "", 0.01, "compile.static_matrix_share", more=True
    ),
}
"""The amounts that are compared, by one value per row, by the keys of their thresholds in Settings."""
COMPILE_CPU_S = "compile_cpu_s"


@dataclass(frozen=True)
class AmountChange:
    """A value that has changed by more than its threshold. `worse`: it has grown, or shrunk where more is better."""

    cell: str
    key: str
    before: float
    after: float
    worse: bool


@dataclass(frozen=True)
class VersionChange:
    """A package whose version has changed in `rows` rows, or an option of the compilation."""

    name: str
    before: str
    after: str
    rows: int


Change = OutcomeChange | TimeChange | AmountChange


@dataclass(frozen=True)
class Comparison:
    """`before`, `after`: what was compared. `names`: of the cells in both. `unchanged`: those of them with the same outcome."""

    before: str
    after: str
    settings: Settings
    names: tuple[str, ...]
    unchanged: int
    versions: tuple[VersionChange, ...]
    outcomes: tuple[OutcomeChange, ...]
    latencies: tuple[TimeChange, ...]
    not_compared: tuple[NotCompared, ...]
    amounts: tuple[AmountChange, ...]
    means: tuple[MeanChange, ...]
    codes: tuple[CodeChange, ...] = ()
    passes: tuple[PassChange, ...] = ()
    compile_times: tuple[TimeChange, ...] = ()

    @property
    def cells(self) -> int:
        """Number of cells in both."""
        return len(self.names)

    @property
    def changes(self) -> list[Change]:
        """All changes of outcomes, times and amounts."""
        return [*self.outcomes, *self.latencies, *self.compile_times, *self.amounts]

    @property
    def measurable(self) -> list[str]:
        """The cells whose change may be found if both programs are timed in turns: the undecided ones, and those that
        have no common anchor."""
        undecided = [change.cell for change in self.latencies if change.verdict == UNDECIDED]
        return undecided + [pair.cell for pair in self.not_compared if pair.is_measurable]

    @property
    def recompilable(self) -> list[str]:
        """The cells whose single compilations differ by more than a threshold, which another one in turns may not."""
        return list(dict.fromkeys(each.cell for each in self.amounts if each.key == COMPILE_CPU_S))

    @property
    def alarms(self) -> list[Change]:
        """The changes for the worse that count, by the settings."""
        return [change for change in self.changes if self._is_alarm(change)]

    def _is_alarm(self, change: Change) -> bool:
        match change:
            case OutcomeChange():
                return change.kind in self.settings.outcomes
            case AmountChange():
                return change.worse
        is_latency = change.what == LATENCY
        least = self.settings.latency if is_latency else self.settings.compile_time
        return change.verdict == SLOWER and least is not None and change.ratio >= least

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON, with the cells of the alarms."""
        alarms = [change.cell for change in self.alarms]
        return asdict(self) | {"cells": self.cells, "alarms": alarms}


def compare(
    chosen: Sequence[Pair],
    before: str,
    after: str,
    settings: Settings,
    in_turns: Mapping[str, Estimate] | None = None,
    codes: Sequence[CodeChange] = (),
    passes: Iterable[PassChange] = (),
    recompiled: Mapping[str, Estimate] | None = None,
) -> Comparison:
    """Return what has changed. `in_turns`: the changes of cells whose programs were timed again in turns, which replace
    those by their rows. `codes`: what differs in the code, if that was requested; a latency of the same code with the same versions
    cannot have changed, and is not compared. `passes`: what differs in the time of the compiler, where it is known. `recompiled`: the CPU times of iree-compile
    of cells that were compiled again in turns, which replace those of their rows; the same compilation has no other."""
    in_both = {pair.cell: pair.both for pair in chosen if pair.both}
    same_program = {
        code.cell
        for code in codes
        if code.is_same and not changed(*map(versions_of, in_both[code.cell]))
    }
    options = {cell: [{**options_of(row), OF_CODE: None} for row in in_both[cell]] for cell in same_program}  # fmt: skip
    repeated = [cell for cell, (was, now) in options.items() if was == now]
    recompiled = recompiled or {}
    by_pair = [
        NotCompared(pair.cell, SAME_PROGRAM)
        if pair.cell in same_program
        else pairs.latency_change(pair, (in_turns or {}).get(pair.cell))
        for pair in chosen
    ]
    estimates = [estimate for estimate in by_pair if isinstance(estimate, Estimate)]
    outcomes = [change for pair in chosen if (change := pairs.outcome_change(pair))]

    def decided(
        estimates: Sequence[Estimate], threshold: float | None, what: str
    ) -> tuple[TimeChange, ...]:
        return tuple(pairs.decided(estimates, settings.rate, threshold or MATTERS, what))

    return Comparison(
        before,
        after,
        settings,
        names=tuple(in_both),
        unchanged=len(in_both) - sum(change.cell in in_both for change in outcomes),
        versions=_versions(in_both.values()),
        outcomes=tuple(sorted(outcomes, key=lambda change: [*KINDS].index(change.kind))),
        latencies=decided(estimates, settings.latency, LATENCY),
        not_compared=tuple(pair for pair in by_pair if isinstance(pair, NotCompared)),
        amounts=tuple(_amounts(in_both, settings, {*repeated, *recompiled})),
        means=tuple(pairs.means(estimates)),
        codes=tuple(codes),
        passes=tuple(passes),
        compile_times=decided([*recompiled.values()], settings.compile_time, COMPILE_TIME),
    )


def _amounts(
    in_both: Mapping[str, tuple[Record, Record]], settings: Settings, not_timed: Collection[str]
) -> Iterator[AmountChange]:
    """The values that are larger, or smaller, than before by more than their thresholds, of rows that are the same
    measurement, but for the model's own code and weights. `not_timed`: the cells of whose compilations the times say nothing."""
    same = {cell: rows for cell, rows in in_both.items() if not difference(*rows, but=OF_MODEL)}
    for key, amount in AMOUNTS.items():
        threshold = getattr(settings, key)
        for cell, rows in same.items() if threshold is not None else ():
            before, after = (lookup(row, amount.path) for row in rows)
            if key == COMPILE_CPU_S and cell in not_timed:
                continue
            if before is None or after is None or before == after:
                continue
            is_small = before and 1 / threshold <= after / before <= threshold
            if abs(after - before) >= amount.least and not is_small:
                yield AmountChange(cell, key, before, after, (after > before) != amount.more)


def _versions(in_both: Iterable[tuple[Record, Record]]) -> tuple[VersionChange, ...]:
    """The versions and options that differ, the most frequent change first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for rows in in_both:
        was, now = ({**row["versions"], **options_of(row)} for row in rows)
        for name, old, new in changed(was, now):
            counts[name, old or "none", new or "none"] += 1
    return tuple(VersionChange(*key, count) for key, count in counts.most_common())
