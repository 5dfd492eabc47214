"""What the rows of operator problems say: pass rates, scores, what to fix first, where the time goes."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.features.operators.problems import scores
from scripts.features.operators.problems.scores import Result, Scores
from scripts.features.operators.report.table import Problem, Row, Table
from scripts.records.results_table import Column
from scripts.supervise.diagnose import failure_signature, readable_detail


@dataclass(frozen=True)
class Rate:
    """How many problems pass, of how many."""

    passed: int
    total: int

    @property
    def share(self) -> float:
        return self.passed / self.total


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
        return any(rate.passed < rate.total for rate in self.by_column)


@dataclass(frozen=True)
class Rates:
    """The rates of all operators, by name. `has_run`: a problem passes if it is verified; otherwise
    there is no device, and it passes if it compiles."""

    columns: tuple[Column, ...]
    has_run: bool
    operators: tuple[OperatorRates, ...]
    all: OperatorRates


def rates(table: Table, target: str) -> Rates:
    """Return the pass rates of operators on the lowering paths of a target."""

    def operator_rates(op: str, problems: Sequence[Sequence[Row]]) -> OperatorRates:
        passed = [[table.passes(row) for row in rows] for rows in problems]
        return OperatorRates(
            op,
            sum(rows[0].problem.count for rows in problems),
            tuple(Rate(sum(column), len(column)) for column in zip(*passed, strict=True)),
            Rate(sum(map(any, passed)), len(passed)),
        )

    columns = tuple(table.paths_of(target))
    problems = table.by_problem(columns)
    by_operator = defaultdict[str, list[Sequence[Row]]](list)
    for rows in problems:
        by_operator[rows[0].problem.op].append(rows)
    return Rates(
        columns,
        any(column in table.ran for column in columns),
        tuple(operator_rates(op, own) for op, own in sorted(by_operator.items())),
        operator_rates("all", problems),
    )


@dataclass(frozen=True)
class Scored:
    """BackendBench's scores of a lowering path, a baseline, or the best path of a target (`label`).
    `theirs`: over every problem that BackendBench includes, by its criterion. `ours`: by this
    project's verification, without weak problems. None if there is no such problem."""

    label: str
    theirs: Scores | None
    ours: Scores | None


def best_path(target: str) -> str:
    """Return the label of the best path of a target."""
    return f"best path/{target}"


def scored(table: Table) -> list[Scored]:
    """Return the scores of everything that ran here, in the order of the table; eager is the base."""
    scored_columns = []
    for target in table.targets:
        columns = [column for column in table.paths_of(target) if column in table.ran]
        scored_columns += [_scored(column.label, table.by_problem([column])) for column in columns]
        if len(columns) > 1:
            scored_columns.append(_scored(best_path(target), table.by_problem(columns)))
    for column in table.baselines:
        if any(row.is_verified and row.runtime != "eager" for row in table.of_column[column]):
            scored_columns.append(_scored(column.label, table.by_problem([column])))
    return scored_columns


def _scored(label: str, problems: Sequence[Sequence[Row]]) -> Scored:
    included = [rows for rows in problems if rows[0].problem.is_included]
    strong = [rows for rows in problems if not rows[0].problem.weak]
    theirs = [_best(rows, lambda row: row.is_correct) for rows in included]
    ours = [_best(rows, lambda row: row.is_verified) for rows in strong]
    return Scored(
        label, *(scores.of_results(results) if results else None for results in (theirs, ours))
    )


def _best(rows: Sequence[Row], correct: Callable[[Row], bool]) -> Result:
    """Return the result of a problem: the fastest of its correct rows, or a wrong result."""
    right = [row for row in rows if correct(row)]
    speedups = [row.speedup for row in right if row.speedup is not None]
    return Result(rows[0].problem.op, bool(right), max(speedups, default=None))


Key = tuple[str, str, str, str, str]
"""Fault, stage, status, reason and signature (diagnose.failure_signature)."""


@dataclass(frozen=True)
class Fix:
    """The `rows` that fail for one reason.

    `blocked`: their problems that pass on no lowering path of a target on which they fail for this reason. `alone`:
    models, on a column, none of whose problems fails for another reason there.
    """

    rows: Sequence[Row]
    blocked: Sequence[Problem]
    alone: Sequence[tuple[str, Column]]

    @property
    def first(self) -> Row:
        """The row whose fault, stage, status and reason are those of all."""
        return self.rows[0]

    @property
    def detail(self) -> str:
        """The detail of the first row."""
        return readable_detail(self.first.detail)

    @functools.cached_property
    def columns(self) -> list[Column]:
        return list(dict.fromkeys(row.column for row in self.rows))

    @functools.cached_property
    def problems(self) -> list[Problem]:
        return _distinct(self.rows)

    @functools.cached_property
    def operators(self) -> list[str]:
        return list(dict.fromkeys(problem.op for problem in self.problems))

    @property
    def calls(self) -> int:
        """The calls of its problems, each problem counted once."""
        return sum(problem.count for problem in self.problems)

    @property
    def blocked_calls(self) -> int:
        return sum(problem.count for problem in self.blocked)


def fixes(table: Table) -> list[Fix]:
    """Return what to fix: the failures of compilers and runtimes, grouped by their reasons. The first one frees the
    most calls. Of equal ones, that which lets more models pass is first."""
    passing = {(row.problem.name, row.column.target) for row in table.rows if table.passes(row)}
    groups = defaultdict[Key, list[Row]](list)
    reasons = defaultdict[tuple[str, Column], set[Key]](set)
    for row in table.rows:
        if row.is_failure:
            key = row.fault, row.stage, row.status, row.reason, failure_signature(row.detail)
            groups[key].append(row)
            for model in row.problem.calls:
                reasons[model, row.column].add(key)
    to_fix = []
    for key, rows in groups.items():
        blocked = [row for row in rows if (row.problem.name, row.column.target) not in passing]
        alone = [model_on for model_on, keys in reasons.items() if keys == {key}]
        to_fix.append(Fix(rows, _distinct(blocked), alone))
    return sorted(to_fix, key=lambda fix: (-fix.calls, -len(fix.alone), -len(fix.problems)))


def _distinct(rows: Iterable[Row]) -> list[Problem]:
    return list({row.problem.name: row.problem for row in rows}.values())


@dataclass
class OperatorTime:
    """The time of all calls of an operator in a model, in milliseconds. `best_ms`: with the fastest verified lowering
    path of each problem, and eager's latency where none is verified; such calls are counted in `unverified`."""

    op: str
    calls: int = 0
    eager_ms: float = 0.0
    best_ms: float = 0.0
    unverified: int = 0


@dataclass
class ModelTime:
    """The time of the operators of a model, of those calls whose problem was timed in eager mode. `calls`: all of its
    calls."""

    model: str
    calls: int = 0
    by_operator: dict[str, OperatorTime] = field(default_factory=dict)

    @property
    def operators(self) -> list[OperatorTime]:
        """The longest first."""
        return sorted(self.by_operator.values(), key=lambda operator: -operator.eager_ms)

    def total(self, value: str) -> Any:
        """The sum of a value over the operators."""
        return sum(getattr(operator, value) for operator in self.by_operator.values())


def model_times(table: Table, target: str) -> list[ModelTime]:
    """Return the times of all models whose calls are known, which traces record: calls × latency.
    `target`: the one with the lowering paths that eager is compared with."""
    by_model: dict[str, ModelTime] = {}
    for rows in table.by_problem([*table.paths_of(target), *table.baselines]):
        op = rows[0].problem.op
        eager = next((r.latency_ms for r in rows if r.runtime == "eager" and r.latency_ms), None)
        best = min((r.latency_ms for r in rows if r.column.target and r.latency_ms), default=None)
        for model, calls in rows[0].problem.calls.items():
            if calls is None:
                continue
            of_model = by_model.setdefault(model, ModelTime(model))
            of_model.calls += calls
            if eager is not None:
                time = of_model.by_operator.setdefault(op, OperatorTime(op))
                time.calls += calls
                time.eager_ms += calls * eager
                time.best_ms += calls * (best or eager)
                time.unverified += 0 if best else calls
    return [of_model for of_model in by_model.values() if of_model.by_operator]
