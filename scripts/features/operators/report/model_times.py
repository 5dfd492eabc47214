"""Where a model's time goes by operator: calls × eager's latency, and what the best path would take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scripts.features.operators.report.table import Row, Table


@dataclass(frozen=True)
class OperatorTime:
    """The time of all calls of an operator in a model, in milliseconds.

    `best_ms`: with the fastest verified lowering path of each problem, and eager's latency where
    none is verified; such calls are counted in `unverified`.
    """

    op: str
    calls: int
    eager_ms: float
    best_ms: float
    unverified: int


@dataclass(frozen=True)
class ModelTime:
    """The time of the operators of a model, the longest first.

    `calls`: all of its calls. `timed`: those whose problem was timed in eager mode.
    """

    model: str
    calls: int
    timed: int
    operators: tuple[OperatorTime, ...]

    @property
    def eager_ms(self) -> float:
        return sum(of.eager_ms for of in self.operators)

    @property
    def best_ms(self) -> float:
        return sum(of.best_ms for of in self.operators)


def of(table: Table, target: str) -> list[ModelTime]:
    """Return the times of all models whose calls are known, which traces record.

    `target`: the one with the lowering paths that eager is compared with.
    """
    columns = {*table.paths_of(target)}
    rows: dict[str, list[Row]] = {}
    for row in table.rows:
        if row.runtime == "eager" or row.column in columns:
            rows.setdefault(row.problem.name, []).append(row)
    by_model: dict[str, list[tuple[int, Sequence[Row]]]] = {}
    for of_problem in rows.values():
        for model, calls in of_problem[0].problem.calls.items():
            if calls is not None:
                by_model.setdefault(model, []).append((calls, of_problem))
    found = [_model(model, called) for model, called in by_model.items()]
    return [one for one in found if one.operators]


def _model(model: str, called: Iterable[tuple[int, Sequence[Row]]]) -> ModelTime:
    every, timed = 0, 0
    by_operator: dict[str, list[OperatorTime]] = {}
    for calls, rows in called:
        every += calls
        eager = next((r.latency_ms for r in rows if r.runtime == "eager" and r.latency_ms), None)
        if eager is None:
            continue
        timed += calls
        best = min((r.latency_ms for r in rows if r.column.target and r.latency_ms), default=None)
        times = calls * eager, calls * (best or eager), 0 if best else calls
        op = rows[0].problem.op
        by_operator.setdefault(op, []).append(OperatorTime(op, calls, *times))
    operators = [_sum(op, parts) for op, parts in by_operator.items()]
    operators.sort(key=lambda one: -one.eager_ms)
    return ModelTime(model, every, timed, tuple(operators))


def _sum(op: str, parts: Sequence[OperatorTime]) -> OperatorTime:
    return OperatorTime(
        op,
        sum(part.calls for part in parts),
        sum(part.eager_ms for part in parts),
        sum(part.best_ms for part in parts),
        sum(part.unverified for part in parts),
    )
