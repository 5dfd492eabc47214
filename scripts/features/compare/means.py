"""Geometric means of changes of latency: per lowering path and target, and per suite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.features.compare.latencies import Estimate, Term, measured, of_terms
from scripts.features.compare.pairs import Pair
from scripts.matrix import toolchains

Record = Mapping[str, Any]

ALL = "all"
BY = ("path", "target", "suite")
"""What cells are grouped by, beside ALL. The target of a baseline is its name."""


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


def means(estimates: Sequence[Estimate], pairs: Sequence[Pair]) -> list[MeanChange]:
    """Return the mean over all cells, then those of the groups in the order of the cells."""
    by_cell = {pair.cell: pair for pair in pairs}
    groups: dict[tuple[str, str], list[Estimate]] = {(ALL, ""): []}
    for one in estimates:
        rows = measured(by_cell[one.cell])
        assert rows is not None
        for group in ((ALL, ""), *_groups(rows[1])):
            groups.setdefault(group, []).append(one)
    order = [ALL, *BY]
    found = [_mean(*group, of) for group, of in groups.items() if of]
    return sorted(found, key=lambda one: order.index(one.by))


def _groups(record: Record) -> list[tuple[str, str]]:
    experiment = record["experiment"]
    target = toolchains.base(experiment["target"] or experiment["runtime"])
    path = toolchains.base(experiment["frontend"] or "") if experiment["runtime"] == "iree" else ""
    names = {"path": path, "target": target, "suite": record["model"]["suite"]}
    return [(by, name) for by, name in names.items() if name]


def _mean(by: str, name: str, of: Sequence[Estimate]) -> MeanChange:
    """The mean of cells. Those that were timed in the same turns share errors, at least that of their anchor, so their mean is
    computed by generation, and only the means of different turns are independent."""
    logs: dict[str, list[tuple[float, ...]]] = {}
    for one in of:
        for term in one.terms:
            logs.setdefault(term.of, []).append(term.logs)
    terms = [
        Term(turns, tuple(math.fsum(column) / len(of) for column in zip(*rows, strict=True)))
        for turns, rows in logs.items()
    ]
    found = of_terms(terms).interval()
    return MeanChange(by, name, len(of), found.ratio, found.low, found.high)
