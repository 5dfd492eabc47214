"""The change of the latency of each cell, from the rounds of both rows or from measurements in turns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.lib.comparison import comparable, decisions
from scripts.lib.comparison.decisions import Decision
from scripts.lib.comparison.pairs import Pair
from scripts.lib.report import ratio, speedups
from scripts.lib.report.ratio import Difference, LogLatency

Record = Mapping[str, Any]

ROUNDS, TURNS = "rounds", "turns"
"""What a change was computed from: the rounds of two rows, or measurements in turns."""
CERTAIN = 1e6
"""Degrees of freedom of a variance that is not estimated."""


@dataclass(frozen=True)
class Estimate:
    """The logarithm of latency after / latency before, and the independent terms of its error. `basis`: ROUNDS or
    TURNS. `before_ms`, `after_ms`: the median latencies."""

    cell: str
    basis: str
    before_ms: float
    after_ms: float
    value: float
    terms: tuple[LogLatency, ...]

    def difference(self, shift: float) -> Difference:
        """Return the difference. `shift` is the error that all cells have in common (see `shift`)."""
        return ratio.difference(self.value, [*self.terms, *common(self.basis, shift)])


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
    """A cell with latencies before and after that are not compared, or could not be."""

    cell: str
    why: str


def common(basis: str, shift: float) -> list[LogLatency]:
    """The term for the error that all cells measured in rounds share."""
    return [LogLatency(0.0, shift**2, CERTAIN)] if basis == ROUNDS and shift else []


def of_pair(pair: Pair, in_turns: Estimate | None = None) -> Estimate | NotCompared | None:
    """Return the change of a cell: `in_turns`, or else that by the rounds of both rows; None if not both rows
    have a latency. Rows that are not the same measurement are not compared, however they were measured."""
    rows = measured(pair)
    if rows is None:
        return None
    if why := comparable.difference(*rows):
        return NotCompared(pair.cell, why)
    return in_turns or _of_rounds(pair, rows)


def _of_rounds(pair: Pair, rows: tuple[Record, Record]) -> Estimate | NotCompared:
    before, after = (speedups.row_of(one["latency"]) for one in rows)
    for name, row in (("before", before), ("after", after)):
        if why := ratio.why_none(row):
            return NotCompared(pair.cell, f"{name}: {why}")
    terms = tuple(map(ratio.log_latency, (before, after)))
    value = terms[1].value - terms[0].value
    before_ms, after_ms = (one["latency"]["median_ms"] for one in rows)
    return Estimate(pair.cell, ROUNDS, before_ms, after_ms, value, terms)


def measured(pair: Pair) -> tuple[Record, Record] | None:
    """Return both rows of a cell if both have a latency."""
    both = pair.both
    return both if both and all(one["latency"] for one in both) else None


def shift(pairs: Sequence[Pair]) -> float:
    """Return the logarithm of how much slower the machine was after than before, by the calibrations of the rows.

    It is the median over the cells that have calibrations in both rows; 0.0 if none has. Rows on other devices
    than CPUs do not take part: the calibration is of the host.
    """
    found = []
    for pair in pairs:
        rows = measured(pair)
        if rows is None or rows[0]["experiment"]["device"] != "cpu":
            continue
        speeds = [_calibrated(one) for one in rows]
        if None not in speeds:
            found.append(speeds[1] - speeds[0])
    return statistics.median(found) if found else 0.0


def _calibrated(record: Record) -> Any:
    """The mean logarithm of the seconds of a row's calibrations; None if it has none."""
    seconds = [one for of in speedups.row_of(record["latency"]) for one in of.calibration_s]
    return statistics.fmean(map(math.log, seconds)) if seconds else None


def decided(
    estimates: Sequence[Estimate], shift: float, rate: float, threshold: float
) -> list[LatencyChange]:
    """Return the change of each cell, decided over all of them together."""
    found = decisions.decide([one.difference(shift) for one in estimates], rate, threshold)
    return [_change(*both) for both in zip(estimates, found, strict=True)]


def _change(one: Estimate, of: Decision) -> LatencyChange:
    at = of.interval
    return LatencyChange(
        one.cell, one.basis, one.before_ms, one.after_ms,
        at.ratio, at.low, at.high, of.q, of.smallest, of.verdict,
    )  # fmt: skip
