"""The problems that pass on no lowering path of a target, with the reasons."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.features.operators.report.table import Row, Table
from scripts.records import coverage, markdown
from scripts.records.markdown import code, text

ARGUMENT_CHARS = 120
DETAIL_CHARS = 120


def problems(table: Table, target: str) -> list[tuple[Row, ...]]:
    """Return the rows of each such problem, those with the most calls first."""
    of_columns = (table.of_column[column] for column in table.paths_of(target))
    found = [rows for rows in zip(*of_columns, strict=True) if not any(map(table.passes, rows))]
    return sorted(found, key=lambda rows: (-rows[0].problem.count, rows[0].problem.op))


def rows(table: Table, target: str, most: int) -> str:
    """Return the table of these problems, and how many more than `most` there are; "" if none."""
    found = problems(table, target)
    if not found:
        return ""
    head = ["operator", "arguments", "calls", "fault", "why"]
    shown = markdown.table(head, map(_line, found[:most]), right=[2])
    return shown + more(len(found), most, "problems")


def more(count: int, most: int, what: str) -> str:
    """Return a note about the lines that a table leaves out."""
    return f"\n{count - most:,} more {what}: results/operators.csv\n" if count > most else ""


def _line(of_problem: Sequence[Row]) -> list[str]:
    problem = of_problem[0].problem
    failures: dict[tuple[str, str, str], list[Row]] = {}
    for row in of_problem:
        kind = row.fault, row.reason, coverage.kind_of(row.detail)
        failures.setdefault(kind, []).append(row)
    whys = [_why(same, len(failures) == 1) for same in failures.values()]
    found = ", ".join(dict.fromkeys(row.fault or row.status for row in of_problem))
    return [text(problem.op), code(problem.args, ARGUMENT_CHARS), f"{problem.count:,}", found, "<br>".join(whys)]  # fmt: skip


def _why(same: Sequence[Row], is_only: bool) -> str:
    """Return the reason of some paths, which all of them share."""
    paths = "" if is_only else f"{text(', '.join(row.column.name for row in same))}: "
    detail = coverage.readable(same[0].detail)
    return f"{paths}{text(same[0].reason)}: {code(detail, DETAIL_CHARS)}" if detail else paths
