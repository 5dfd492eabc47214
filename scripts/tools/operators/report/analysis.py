"""The rows of operator problems, and what they say: pass rates, scores, what to fix first, where the time goes.

A record is large and there may be hundreds of thousands, so only the values of each that the page and the summary need are kept.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.measure.verify import verification
from scripts.results.results_table import Column, Provenance
from scripts.supervise import outcome
from scripts.supervise.diagnose import failure_signature, readable_detail
from scripts.tools.operators.problems import scores
from scripts.tools.operators.problems.scores import Result, Scores
from scripts.tools.operators.report import faults


def column(record: Mapping[str, Any]) -> Column:
    """Return the lowering path and target of a record, or its baseline."""
    experiment = record["experiment"]
    if experiment["runtime"] == "iree":
        return Column(experiment["frontend"], experiment["target"])
    return Column(experiment["target"] or experiment["runtime"])


RUNNING = ("operator_verify", "operator_time")
"""The stages of a lowering path that run its modules."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What the rows of a problem share. `calls`: by model. `is_included`: BackendBench includes it;
    it includes all problems of traces. `has_reference`: eager ran, and its results can be compared."""

    name: str
    op: str
    args: str
    count: int
    calls: Mapping[str, int | None]
    is_included: bool
    has_reference: bool
    weak: tuple[str, ...]
    weak_backendbench: tuple[str, ...]
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A problem on a lowering path and target, or under a baseline. `is_correct`: by BackendBench's
    criterion. `latency_ms`, `speedup`: None without a latency, and without one of eager."""

    problem: Problem
    column: Column
    runtime: str
    status: str
    stage: str
    reason: str
    detail: str
    fault: str
    code: str
    is_correct: bool
    latency_ms: float | None
    speedup: float | None

    @property
    def is_verified(self) -> bool:
        return self.code == verification.PASS

    @property
    def is_compiled(self) -> bool:
        """Whether there is a module: the row is verified, or was stopped later."""
        return self.status == outcome.OK or self.stage in RUNNING

    @property
    def has_run(self) -> bool:
        return self.is_verified or (self.stage in RUNNING and self.status != outcome.UNAVAILABLE)

    @property
    def is_failure(self) -> bool:
        """Whether a compiler or runtime failed, and not the machine or the problem."""
        return bool(self.fault) and self.fault not in faults.HARMLESS


class Table:
    """The rows of some records, which are read once and not kept. `paths`: the lowering paths with
    their targets, `baselines`: the others, in order. `ran`: the columns of which a module was run.
    The targets of the others have no device here."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.provenance = Provenance()
        self.rows: list[Row] = []
        self.of_column = defaultdict[Column, list[Row]](list)
        problems: dict[str, Problem] = {}
        for record in records:
            self.provenance.add(record)
            name = record["problem"]["name"]
            if name not in problems:
                problems[name] = _problem(record)
            row = _row(record, problems[name])
            self.rows.append(row)
            self.of_column[row.column].append(row)
        self.problems = list(problems.values())
        self.ran = {c for c, rows in self.of_column.items() if any(row.has_run for row in rows)}
        columns = list(self.of_column)
        self.targets = list(dict.fromkeys(c.target for c in columns if c.target))
        self.paths = [column for target in self.targets for column in self.paths_of(target)]
        self.baselines = [column for column in columns if not column.target]

    def paths_of(self, target: str) -> list[Column]:
        """Return the lowering paths of a target."""
        return [column for column in self.of_column if column.target == target]

    def by_problem(self, columns: Iterable[Column]) -> list[tuple[Row, ...]]:
        """Return the rows of each problem in some columns."""
        return list(zip(*(self.of_column[column] for column in columns), strict=True))

    def passes(self, row: Row) -> bool:
        """Whether a row is as good as it can be here: verified, or compiled without a device."""
        return row.is_verified or (row.is_compiled and row.column not in self.ran)


def _problem(record: Mapping[str, Any]) -> Problem:
    problem, dataset, reference = record["problem"], record["dataset"], record["reference"]
    calls = problem["calls"] or [None] * len(problem["models"])
    return Problem(
        **{key: problem[key] for key in ("name", "op", "args", "count")},
        calls=dict(zip(problem["models"], calls, strict=True)),
        is_included=dataset["included_in_benchmark"] if dataset else True,
        has_reference=reference.get("deterministic", False),
        weak=tuple(reference.get("weak", ())),
        weak_backendbench=tuple(reference.get("weak_backendbench", ())),
        marks=tuple(reference.get("marks", ())),
    )


def _row(record: Mapping[str, Any], problem: Problem) -> Row:
    ended, latency = record["outcome"], record["latency"]
    return Row(
        problem,
        column(record),
        record["experiment"]["runtime"],
        **{key: ended[key] for key in ("status", "stage", "reason", "detail", "fault")},
        code=record["verification"]["code"],
        is_correct=bool(record["verification"]["backendbench_correct"]),
        latency_ms=latency["ms"] if latency else None,
        speedup=latency["speedup_vs_eager"] if latency else None,
    )


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
