"""The kernels' results as data: GB/s by shape and runtime, and the means of each runtime. For page and screen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.records import remedied
from scripts.records.results_table import Column, Mean, Table, column_of

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Share:
    """The share of the machine's bandwidth that a runtime reaches: geometric mean and largest, over `count`
    rows."""

    mean: float
    largest: float
    count: int


@dataclass(frozen=True)
class KernelTable:
    """The rows of one kernel. `entries`: its records by (model, column)."""

    name: str
    table: Table
    entries: Mapping[tuple[str, Column], Record]
    shares: Mapping[Column, Share]

    def shape(self, model: str) -> str:
        """The shape of a model, with the dtype."""
        one = next(record for (name, _), record in self.entries.items() if name == model)
        return f"{one['kernel']['shape']} {one['experiment']['dtype']}"


@dataclass(frozen=True)
class Kernels:
    """All kernels: the table over all of them, and one for each."""

    table: Table
    shares: Mapping[Column, Share]
    each: tuple[KernelTable, ...]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Kernels:
        by_kernel: dict[str, list[Record]] = {}
        for one in records:
            by_kernel.setdefault(one["kernel"]["name"], []).append(one)
        each = tuple(
            KernelTable(
                name,
                Table.of(found),
                {(one["model"]["name"], column_of(one)): one for one in found},
                shares(found),
            )
            for name, found in by_kernel.items()
        )
        return cls(Table.of(records), shares(records), each)


def shares(records: Iterable[Record]) -> dict[Column, Share]:
    """The share of each column, over its rows with a latency on a device whose bandwidth is known. A row that a
    remedy compiled by another lowering path does not count."""
    found: dict[Column, list[float]] = {}
    for one in records:
        if one["kernel"]["bandwidth_share"] is not None and not remedied.by_other_path(one):
            found.setdefault(column_of(one), []).append(one["kernel"]["bandwidth_share"])
    return {
        column: Share(
            math.exp(math.fsum(map(math.log, values)) / len(values)), max(values), len(values)
        )
        for column, values in found.items()
    }


def mean_of(table: Table, column: Column) -> Mean | None:
    """The mean speed-ups of a column; None for eager and for columns without a latency."""
    return next((mean for mean in table.means if mean.column == column), None)
