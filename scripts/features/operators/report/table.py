"""The rows of operator problems as the page and the summary need them.

A record is large and there may be hundreds of thousands, so only these values of each are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scripts.features.operators.report import faults
from scripts.records.provenance import Provenance
from scripts.records.results_table import Column
from scripts.supervise import outcome
from scripts.verify import codes

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
        return self.code == codes.PASS

    @property
    def is_compiled(self) -> bool:
        """Whether there is a module: the row is verified, or was stopped later."""
        return self.status == outcome.OK or self.stage in RUNNING

    @property
    def is_failure(self) -> bool:
        """Whether a compiler or runtime failed, and not the machine or the problem."""
        return bool(self.fault) and self.fault not in faults.HARMLESS


@dataclass(frozen=True)
class Table:
    """All rows. `paths`: the lowering paths with their targets, `baselines`: the others, in order.
    `ran`: the columns of which a module was run. The targets of the others have no device here."""

    rows: tuple[Row, ...]
    paths: tuple[Column, ...]
    baselines: tuple[Column, ...]
    provenance: Provenance
    problems: tuple[Problem, ...]
    of_column: Mapping[Column, tuple[Row, ...]] = field(repr=False)
    ran: frozenset[Column]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Table:
        """Return the table of some records, which are read once and not kept."""
        provenance, problems = Provenance(), dict[str, Problem]()
        by_column: dict[Column, list[Row]] = {}
        rows = []
        for record in records:
            provenance.add(record)
            name = record["problem"]["name"]
            if name not in problems:
                problems[name] = _problem(record)
            rows.append(row := _row(record, problems[name]))
            by_column.setdefault(row.column, []).append(row)
        found = list(by_column)
        targets = list(dict.fromkeys(column.target for column in found))
        paths = sorted((c for c in found if c.target), key=lambda c: targets.index(c.target))
        return cls(
            tuple(rows),
            tuple(paths),
            tuple(c for c in found if not c.target),
            provenance,
            tuple(problems.values()),
            {column: tuple(of) for column, of in by_column.items()},
            frozenset(column for column, of in by_column.items() if any(map(_has_run, of))),
        )

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(column.target for column in self.paths))

    def paths_of(self, target: str) -> list[Column]:
        """Return the lowering paths of a target."""
        return [column for column in self.paths if column.target == target]

    def by_problem(self, columns: Iterable[Column]) -> list[tuple[Row, ...]]:
        """Return the rows of each problem in some columns."""
        return list(zip(*(self.of_column[column] for column in columns), strict=True))

    def passes(self, row: Row) -> bool:
        """Whether a row is as good as it can be here: verified, or compiled without a device."""
        return row.is_verified or (row.is_compiled and row.column not in self.ran)


def _has_run(row: Row) -> bool:
    return row.is_verified or (row.stage in RUNNING and row.status != outcome.UNAVAILABLE)


def _problem(record: Mapping[str, Any]) -> Problem:
    problem, dataset, reference = record["problem"], record["dataset"], record["reference"]
    calls = problem["calls"] or [None] * len(problem["models"])
    return Problem(
        problem["name"],
        problem["op"],
        problem["args"],
        problem["count"],
        dict(zip(problem["models"], calls, strict=True)),
        dataset["included_in_benchmark"] if dataset else True,
        reference.get("deterministic", False),
        tuple(reference.get("weak", ())),
        tuple(reference.get("weak_backendbench", ())),
        tuple(reference.get("marks", ())),
    )


def _row(record: Mapping[str, Any], problem: Problem) -> Row:
    of, ended, latency = record["experiment"], record["outcome"], record["latency"]
    is_iree = of["runtime"] == "iree"
    return Row(
        problem,
        Column(of["frontend"], of["target"]) if is_iree else Column(of["target"] or of["runtime"]),
        of["runtime"],
        ended["status"],
        ended["stage"],
        ended["reason"],
        ended["detail"],
        ended["fault"],
        record["verification"]["code"],
        bool(record["verification"]["backendbench_correct"]),
        latency["ms"] if latency else None,
        latency["speedup_vs_eager"] if latency else None,
    )
