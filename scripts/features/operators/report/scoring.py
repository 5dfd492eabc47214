"""BackendBench's scores of lowering paths, of the best of them, and of baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from scripts.features.operators.problems import scores
from scripts.features.operators.problems.scores import Result, Scores
from scripts.features.operators.report.table import Row, Table

Judge = Callable[[Row], bool]


@dataclass(frozen=True)
class Scored:
    """The scores of a lowering path, a baseline, or the best path of a target (`label`).

    `theirs`: BackendBench's, over every included problem, by its criterion. `ours`: by this
    project's verification, without weak problems. None if there is no such problem.
    """

    label: str
    theirs: Scores | None
    ours: Scores | None


def best_path(target: str) -> str:
    """Return the label of the best path of a target."""
    return f"best path/{target}"


def scored(table: Table, p: float = 1.0) -> list[Scored]:
    """Return the scores of everything that ran here, in the order of the table; eager is the base."""
    found = []
    for target in table.targets:
        columns = [column for column in table.paths_of(target) if column in table.ran]
        of_paths = [table.of_column[column] for column in columns]
        found += [_scored(c.label, [rows], p) for c, rows in zip(columns, of_paths, strict=True)]
        if len(columns) > 1:
            found.append(_scored(best_path(target), of_paths, p))
    for column in table.baselines:
        rows = table.of_column[column]
        if any(row.is_verified and row.runtime != "eager" for row in rows):
            found.append(_scored(column.label, [rows], p))
    return found


def _scored(label: str, columns: Sequence[Sequence[Row]], p: float) -> Scored:
    theirs = _results(columns, lambda row: row.is_correct, lambda row: row.problem.is_included)
    ours = _results(columns, lambda row: row.is_verified, lambda row: not row.problem.weak)
    return Scored(label, *(scores.of(found, p) if found else None for found in (theirs, ours)))


def _results(columns: Sequence[Sequence[Row]], correct: Judge, wanted: Judge) -> list[Result]:
    """Return one result per problem: the best over the columns."""
    return [best(rows, correct) for rows in zip(*columns, strict=True) if wanted(rows[0])]


def best(rows: Iterable[Row], correct: Judge) -> Result:
    """Return the result of a problem: the fastest of its correct rows, or a wrong result."""
    rows = list(rows)
    right = [row for row in rows if correct(row)]
    speedups = [row.speedup for row in right if row.speedup is not None]
    return Result(rows[0].problem.op, bool(right), max(speedups, default=None))
