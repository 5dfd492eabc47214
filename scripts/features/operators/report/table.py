"""The records of operator problems: results/operators/operators.jsonl, and its rows as the page and the summary need them.

A record is large and there may be hundreds of thousands, so only these values of each are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import checkout
from scripts.features.operators.report import columns, faults
from scripts.records.results_file import Form
from scripts.records.results_table import Column, Provenance
from scripts.supervise import outcome
from scripts.verify import verification

JSONL = Path("results/operators/operators.jsonl")
OPERATORS = Form(
    "results/operators.csv",
    columns.FIELDS,
    columns.contradiction,
    dict.fromkeys(
        ("problem.name", "problem.op", "problem.args", "experiment.runtime", "experiment.frontend", "experiment.target", "outcome.status", "verification.code", "latency.ms")
    ),
)  # fmt: skip
COMMAND = checkout.run_command(OPERATORS.csv)


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
