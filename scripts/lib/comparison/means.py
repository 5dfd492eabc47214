"""Geometric means of changes of latency: per lowering path and target, and per suite."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.lib.comparison.latencies import TURNS, Estimate, common, measured
from scripts.lib.comparison.pairs import Pair
from scripts.lib.config import toolchains
from scripts.lib.report import ratio
from scripts.lib.report.ratio import Interval

Record = Mapping[str, Any]

ALL = "all"
BY = ("path", "target", "suite")
"""What cells are grouped by, beside ALL. The target of a baseline is its name."""


@dataclass(frozen=True)
class MeanChange:
    """The geometric mean of latency after / latency before over `cells` cells, with its 95 % interval.

    `by`: ALL or one of BY; `name`: the group. The interval covers the errors of these measurements.
    """

    by: str
    name: str
    cells: int
    ratio: float
    low: float
    high: float


def means(estimates: Sequence[Estimate], pairs: Sequence[Pair], shift: float) -> list[MeanChange]:
    """Return the mean over all cells, then those of the groups in the order of the cells."""
    by_cell = {pair.cell: pair for pair in pairs}
    groups: dict[tuple[str, str], list[Estimate]] = {(ALL, ""): []}
    for one in estimates:
        rows = measured(by_cell[one.cell])
        assert rows is not None
        for group in ((ALL, ""), *_groups(rows[1])):
            groups.setdefault(group, []).append(one)
    order = [ALL, *BY]
    found = [_mean(*group, of, shift) for group, of in groups.items() if of]
    return sorted(found, key=lambda one: order.index(one.by))


def _groups(record: Record) -> list[tuple[str, str]]:
    experiment = record["experiment"]
    target = toolchains.base(experiment["target"] or experiment["runtime"])
    path = toolchains.base(experiment["frontend"] or "") if experiment["runtime"] == "iree" else ""
    names = {"path": path, "target": target, "suite": record["model"]["suite"]}
    return [(by, name) for by, name in names.items() if name]


def _mean(by: str, name: str, of: Sequence[Estimate], shift: float) -> MeanChange:
    terms = [ratio.scaled(term, 1 / len(of)) for one in of for term in one.terms]
    basis = next((one.basis for one in of if one.basis != TURNS), TURNS)
    value = statistics.fmean(one.value for one in of)
    found: Interval = ratio.difference(value, [*terms, *common(basis, shift)]).interval()
    return MeanChange(by, name, len(of), found.ratio, found.low, found.high)
