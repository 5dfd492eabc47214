"""What to fix first: the failures of the compilers and runtimes, grouped by their reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scripts.features.operators.report.table import Problem, Row, Table
from scripts.records import coverage
from scripts.records.results_table import Column

Key = tuple[str, str, str, str, str]
"""Fault, stage, status, reason and kind of detail (coverage.kind_of)."""


@dataclass(frozen=True)
class Fix:
    """The rows that fail for one reason.

    `detail`: that of the first row. `problems`: their problems. `blocked`: those of them that pass
    on no lowering path of a target on which they fail for this reason. `alone`: models, on a
    column, none of whose problems fails for another reason there.
    """

    fault: str
    stage: str
    status: str
    reason: str
    detail: str
    columns: tuple[Column, ...]
    operators: tuple[str, ...]
    problems: tuple[Problem, ...]
    blocked: tuple[Problem, ...]
    alone: tuple[tuple[str, Column], ...]

    @property
    def calls(self) -> int:
        """The calls of its problems, each problem counted once."""
        return sum(problem.count for problem in self.problems)

    @property
    def blocked_calls(self) -> int:
        return sum(problem.count for problem in self.blocked)


def first(table: Table) -> list[Fix]:
    """Return the fixes, the one that frees the most calls first.

    Of equal ones, that which lets more models pass is first.
    """
    groups: dict[Key, list[Row]] = {}
    for row in table.rows:
        if row.is_failure:
            groups.setdefault(key_of(row), []).append(row)
    passing = _passing(table)
    alone = _alone(table)
    found = [_fix(rows, passing, alone.get(key, ())) for key, rows in groups.items()]
    return sorted(found, key=lambda fix: (-fix.calls, -len(fix.alone), -len(fix.problems)))


def key_of(row: Row) -> Key:
    """Return what rows that fail for the same reason have in common."""
    return row.fault, row.stage, row.status, row.reason, coverage.kind_of(row.detail)


def _passing(table: Table) -> set[tuple[str, str]]:
    """Return (problem, target) of all problems that pass on a lowering path of the target."""
    return {(row.problem.name, row.column.target) for row in table.rows if table.passes(row)}


def _alone(table: Table) -> dict[Key, list[tuple[str, Column]]]:
    """Return the models, by column, all of whose failures there have the same reason."""
    reasons: dict[tuple[str, Column], set[Key]] = {}
    for row in table.rows:
        if row.is_failure:
            for model in row.problem.calls:
                reasons.setdefault((model, row.column), set()).add(key_of(row))
    found: dict[Key, list[tuple[str, Column]]] = {}
    for of, keys in reasons.items():
        if len(keys) == 1:
            found.setdefault(next(iter(keys)), []).append(of)
    return found


def _fix(
    rows: Sequence[Row], passing: set[tuple[str, str]], alone: Iterable[tuple[str, Column]]
) -> Fix:
    one = rows[0]
    blocked = [row.problem for row in rows if (row.problem.name, row.column.target) not in passing]
    return Fix(
        one.fault,
        one.stage,
        one.status,
        one.reason,
        coverage.readable(one.detail),
        tuple(dict.fromkeys(row.column for row in rows)),
        tuple(dict.fromkeys(row.problem.op for row in rows)),
        _distinct(row.problem for row in rows),
        _distinct(blocked),
        tuple(alone),
    )


def _distinct(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple({problem.name: problem for problem in problems}.values())
