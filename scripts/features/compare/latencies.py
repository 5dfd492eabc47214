"""The change of the latency of each cell, which of the changes are real, and their geometric means.

A change is measured in turns in which both rows were timed, or by the ratios of both to an anchor. timing/ratios.py decides
which are real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.features.compare import pairs
from scripts.features.compare.pairs import Pair, Record
from scripts.matrix.cell import EntryName
from scripts.records import speedups
from scripts.timing import ratios
from scripts.timing.ratios import Decision, Difference, decide

TURNS, ANCHOR = "in turns", "by anchor"
"""How a change was measured: both rows were timed in the same turns, or each in turns with the anchor of its group."""
LATENCY, COMPILE_TIME = "latency", "compile time"
IS_ANCHOR = "it is the anchor of both runs, with which their other rows are compared"
ALL = "all"
BY = ("path", "target", "suite")
"""What cells are grouped by for means, beside ALL. The target of a baseline is its name."""


@dataclass(frozen=True)
class Term:
    """A part of the error of a change. `turns`: the name of what was timed in turns. `logs`: the logarithm of latency
    after / latency before, or the part of it that these turns tell, in each generation. `noise`: that of what was timed
    in them (ratios.noise), if it is known."""

    turns: str
    logs: tuple[float, ...]
    noise: float | None = None


@dataclass(frozen=True)
class Estimate:
    """The change of a cell. `basis`: TURNS or ANCHOR. `before_ms`, `after_ms`: both latencies, or CPU times of iree-compile. `terms`: the sum of
    their means is the logarithm of latency after / latency before."""

    pair: Pair
    basis: str
    before_ms: float
    after_ms: float
    terms: tuple[Term, ...]

    @property
    def difference(self) -> Difference:
        """The logarithm of latency after / latency before."""
        return _sum(self.terms)


@dataclass(frozen=True)
class TimeChange(Decision):
    """The decided change of a cell; see Estimate. `what`: LATENCY or COMPILE_TIME."""

    what: str
    cell: str
    basis: str
    before_ms: float
    after_ms: float


@dataclass(frozen=True)
class NotCompared:
    """A cell with latencies before and after that are not compared. `is_measurable`: whether they can be if both
    programs are timed in turns."""

    cell: str
    why: str
    is_measurable: bool = False


def of_pair(pair: Pair, in_turns: Estimate | None = None) -> Estimate | NotCompared | None:
    """Return the change of a cell: `in_turns`, if both were timed again, or else that by their rows; None if not both
    rows have a latency. Rows that are not the same measurement are not compared, however they were timed, but for rows of which only the
    model's own code or weights differ: these are compared in turns."""
    if pair.measured is None:
        return None
    if why := pairs.difference(*pair.measured, but=pairs.OF_MODEL):
        return NotCompared(pair.cell, why)
    if in_turns:
        return in_turns
    before, after = (row["latency"] for row in pair.measured)
    if why := pairs.difference(*pair.measured):
        # Its anchor has changed with it, so only turns of both can compare them.
        return NotCompared(pair.cell, why, before["anchor_ms"] != before["values_ms"])
    shared = before["group"] == after["group"]
    if not shared:
        was, now = (latency["anchor"] or "none" for latency in (before, after))
        if was != now or was == "none":
            return NotCompared(pair.cell, f"anchor: {was} before, {now} after", True)
        if before["anchor_ms"] == before["values_ms"]:
            return NotCompared(pair.cell, IS_ANCHOR)
    counts = [latency["generations"] for latency in (before, after)]
    is_same = shared and before["values_ms"] == after["values_ms"]
    if min(counts) < ratios.LEAST and not is_same:
        why = f"{counts[0]} generations before, {counts[1]} after; an interval needs {ratios.LEAST}"
        return NotCompared(pair.cell, why, True)
    noises = [None if is_same else speedups.noise(latency) for latency in (before, after)]
    terms = [term(before["group"], before["values_ms"], after["values_ms"], noises[0])] if shared else [
        term(before["group"], before["values_ms"], before["anchor_ms"], noises[0]),
        term(after["group"], after["anchor_ms"], after["values_ms"], noises[1]),
    ]  # fmt: skip
    return Estimate(pair, TURNS if shared else ANCHOR, before["ms"], after["ms"], tuple(terms))


def term(
    turns: str,
    before_ms: Sequence[float],
    after_ms: Sequence[float],
    noise: float | None = None,
) -> Term:
    """The term of two series of latencies, one per generation, that were timed in the same turns."""
    logs = tuple(math.log(b / a) for a, b in zip(before_ms, after_ms, strict=True))
    return Term(turns, logs, noise)


def _sum(terms: Sequence[Term]) -> Difference:
    """The sum of independent terms. One measurement, compared with itself, has no error however few generations it
    has."""
    exact = Difference(0.0, 0.0, 1.0)
    return ratios.combined([(1, ratios.of_logs(term.logs, term.noise) or exact) for term in terms])


def decided(
    estimates: Sequence[Estimate], rate: float, threshold: float, what: str
) -> list[TimeChange]:
    """Return the change of each cell, decided over all of them together; see `decide`. `what`: LATENCY or COMPILE_TIME."""
    decisions = decide([estimate.difference for estimate in estimates], rate, threshold)
    return [
        TimeChange(
            **vars(decision),
            what=what,
            cell=estimate.pair.cell,
            basis=estimate.basis,
            before_ms=estimate.before_ms,
            after_ms=estimate.after_ms,
        )
        for estimate, decision in zip(estimates, decisions, strict=True)
    ]


@dataclass(frozen=True)
class MeanChange:
    """The geometric mean of latency after / latency before over `cells` cells, with its 99 % interval.

    `by`: ALL or one of BY; `name`: the group. The interval covers the errors of these measurements.
    """

    by: str
    name: str
    cells: int
    ratio: float
    low: float
    high: float


def means(estimates: Sequence[Estimate]) -> list[MeanChange]:
    """Return the mean over all cells, then those of the groups in the order of the cells.

    Cells that were timed in the same turns share errors, at least that of their anchor, so their mean is computed by
    generation, and only the means of different turns are independent.
    """
    groups: dict[tuple[str, str], list[Estimate]] = {}
    for estimate in estimates:
        assert estimate.pair.after is not None
        for group in ((ALL, ""), *groups_of(estimate.pair.after)):
            groups.setdefault(group, []).append(estimate)
    changes = []
    for (by, name), members in groups.items():
        logs: dict[str, list[tuple[float, ...]]] = {}
        for each in (term for estimate in members for term in estimate.terms):
            logs.setdefault(each.turns, []).append(each.logs)
        sums = ((turns, map(math.fsum, zip(*rows, strict=True))) for turns, rows in logs.items())
        terms = [
            Term(turns, tuple(total / len(members) for total in totals)) for turns, totals in sums
        ]
        at = _sum(terms).interval()
        changes.append(MeanChange(by, name, len(members), at.ratio, at.low, at.high))
    return sorted(changes, key=lambda mean: (ALL, *BY).index(mean.by))


def groups_of(record: Record) -> list[tuple[str, str]]:
    """Return the groups in whose means a row is, each as what it is grouped by and its name."""
    experiment = record["experiment"]
    frontend = experiment["frontend"] if experiment["runtime"] == "iree" else None
    path, target = (
        str(EntryName.read(name).without("toolchain"))
        for name in (frontend or "", experiment["target"] or experiment["runtime"])
    )
    names = zip(BY, (path, target, record["model"]["suite"]), strict=True)
    return [(by, name) for by, name in names if name]
