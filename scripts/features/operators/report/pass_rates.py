"""The pass rates of operators on the lowering paths of a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.features.operators.report.table import Row, Table
from scripts.records.results_table import Column


@dataclass(frozen=True)
class Rate:
    """How many problems pass, of how many."""

    passed: int
    of: int

    @property
    def share(self) -> float:
        return self.passed / self.of


@dataclass(frozen=True)
class OperatorRates:
    """The rates of an operator. `calls`: of its problems. `best`: of those that pass on any path."""

    op: str
    calls: int
    by_column: tuple[Rate, ...]
    best: Rate

    @property
    def fails(self) -> bool:
        """Whether a problem fails on a path."""
        return any(rate.passed < rate.of for rate in self.by_column)


@dataclass(frozen=True)
class Rates:
    """The rates of all operators, by name. `has_run`: a problem passes if it is verified; otherwise
    there is no device, and it passes if it compiles."""

    columns: tuple[Column, ...]
    has_run: bool
    operators: tuple[OperatorRates, ...]
    all: OperatorRates


def rates(table: Table, target: str) -> Rates:
    """Return the rates on a target."""
    columns = tuple(table.paths_of(target))
    problems = list(zip(*(table.of_column[column] for column in columns), strict=True))
    by_operator: dict[str, list[Sequence[Row]]] = {}
    for rows in problems:
        by_operator.setdefault(rows[0].problem.op, []).append(rows)
    return Rates(
        columns,
        any(column in table.ran for column in columns),
        tuple(_of(table, op, by_operator[op]) for op in sorted(by_operator)),
        _of(table, "all", problems),
    )


def _of(table: Table, op: str, problems: Sequence[Sequence[Row]]) -> OperatorRates:
    passed = [[table.passes(row) for row in rows] for rows in problems]
    return OperatorRates(
        op,
        sum(rows[0].problem.count for rows in problems),
        tuple(Rate(sum(column), len(column)) for column in zip(*passed, strict=True)),
        Rate(sum(map(any, passed)), len(passed)),
    )
