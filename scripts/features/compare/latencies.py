"""The change of the latency of each cell, by turns in which both rows were timed, or by the ratios of both to an anchor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.features.compare import comparable, decisions
from scripts.features.compare.decisions import Decision
from scripts.features.compare.pairs import Pair
from scripts.timing import ratios
from scripts.timing.ratios import Difference

Record = Mapping[str, Any]

TURNS, ANCHOR = "in turns", "by anchor"
"""How a change is known: both rows were timed in the same turns, or each in turns with the anchor of its group."""
IS_ANCHOR = "it is the anchor of both runs, with which their other rows are compared"


@dataclass(frozen=True)
class Term:
    """A part of the error of a change. `of`: the name of what was timed in turns. `logs`: the logarithm of latency after /
    latency before, or the part of it that these turns tell, in each generation."""

    of: str
    logs: tuple[float, ...]


@dataclass(frozen=True)
class Estimate:
    """The change of a cell. `basis`: TURNS or ANCHOR. `before_ms`, `after_ms`: both latencies. `terms`: the sum of their
    means is the logarithm of latency after / latency before."""

    cell: str
    basis: str
    before_ms: float
    after_ms: float
    terms: tuple[Term, ...]

    @property
    def difference(self) -> Difference:
        """The logarithm of latency after / latency before."""
        return of_terms(self.terms)


@dataclass(frozen=True)
class LatencyChange:
    """`ratio`: latency after / latency before, with its interval. See decisions.Decision for the rest."""

    cell: str
    basis: str
    before_ms: float
    after_ms: float
    ratio: float
    low: float
    high: float
    q: float
    smallest: float
    verdict: str


@dataclass(frozen=True)
class NotCompared:
    """A cell with latencies before and after that are not compared. `is_measurable`: whether they can be if both programs
    are timed in turns."""

    cell: str
    why: str
    is_measurable: bool = False


def of_terms(terms: Sequence[Term]) -> Difference:
    """The sum of independent terms. One measurement, compared with itself, has no error however few generations it has."""
    return ratios.combined([(1, ratios.of_logs(one.logs) or Difference(0.0, 0.0, 1.0)) for one in terms])  # fmt: skip


def of_pair(pair: Pair, in_turns: Estimate | None = None) -> Estimate | NotCompared | None:
    """Return the change of a cell: `in_turns`, if both were timed again, or else that by their rows; None if not both rows
    have a latency. Rows that are not the same measurement are not compared, however they were timed."""
    rows = measured(pair)
    if rows is None:
        return None
    if why := comparable.difference(*rows):
        return NotCompared(pair.cell, why)
    if in_turns:
        return in_turns
    before, after = (one["latency"] for one in rows)
    shared = before["group"] == after["group"]
    if why := "" if shared else _no_anchor(before, after):
        return NotCompared(pair.cell, why, is_measurable=why != IS_ANCHOR)
    counts = [one["generations"] for one in (before, after)]
    if min(counts) < ratios.LEAST and not (shared and before["values_ms"] == after["values_ms"]):
        why = f"{counts[0]} generations before, {counts[1]} after; an interval needs {ratios.LEAST}"
        return NotCompared(pair.cell, why, is_measurable=True)
    if shared:
        terms = [term(before["group"], before["values_ms"], after["values_ms"])]
    else:
        terms = [
            term(before["group"], before["values_ms"], before["anchor_ms"]),
            term(after["group"], after["anchor_ms"], after["values_ms"]),
        ]
    return Estimate(pair.cell, TURNS if shared else ANCHOR, before["ms"], after["ms"], tuple(terms))


def term(of: str, before_ms: Sequence[float], after_ms: Sequence[float]) -> Term:
    """The term of two series of latencies, one per generation, that were timed in the same turns."""
    return Term(of, tuple(math.log(b / a) for a, b in zip(before_ms, after_ms, strict=True)))


def _no_anchor(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Why two latencies cannot be compared by the anchors of their groups; "" if they can."""
    was, now = (one["anchor"] or "none" for one in (before, after))
    if was != now or was == "none":
        return f"anchor: {was} before, {now} after"
    return IS_ANCHOR if before["anchor_ms"] == before["values_ms"] else ""


def measured(pair: Pair) -> tuple[Record, Record] | None:
    """Return both rows of a cell if both have a latency."""
    both = pair.both
    return both if both and all(one["latency"] for one in both) else None


def decided(estimates: Sequence[Estimate], rate: float, threshold: float) -> list[LatencyChange]:
    """Return the change of each cell, decided over all of them together."""
    found = decisions.decide([one.difference for one in estimates], rate, threshold)
    return [_change(*both) for both in zip(estimates, found, strict=True)]


def _change(one: Estimate, of: Decision) -> LatencyChange:
    at = of.interval
    return LatencyChange(
        one.cell, one.basis, one.before_ms, one.after_ms,
        at.ratio, at.low, at.high, of.q, of.smallest, of.verdict,
    )  # fmt: skip
