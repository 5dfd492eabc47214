"""Operator problems: which operators pass on which lowering path, and what to fix first."""

from __future__ import annotations

from typing import Any

from scripts.features.operators.report import analysis, page, records_file
from scripts.features.operators.report.table import Table
from scripts.features.report.web.source import Source, View
from scripts.records import wording

MOST = 300
"""Failures that are kept; operators.csv has all."""


def select(source: Source) -> dict[str, Any] | None:
    """Return the pass rates by target, and the failures by cause; None if no operator was run."""
    path = source.root / records_file.JSONL
    if not path.is_file():
        return None
    table = Table(records_file.data(path))
    if not table.rows:
        return None
    return {
        "title": page.title(table),
        "targets": [_rates(table, target) for target in table.targets],
        "fixes": [_fix(one) for one in analysis.fixes(table)[:MOST]],
        "speedups": [
            [row.problem.op, wording.path(row.column), row.speedup]
            for row in table.rows
            if row.speedup is not None and row.column.target
        ],
    }


def _rates(table: Table, target: str) -> dict[str, Any]:
    found = analysis.rates(table, target)
    return {
        "target": target,
        "ran": found.has_run,
        "columns": [column.name for column in found.columns],
        "operators": [
            [of.op, of.calls, [[one.passed, one.of] for one in (*of.by_column, of.best)]]
            for of in (found.all, *found.operators)
        ],
    }


def _fix(of: analysis.Fix) -> dict[str, Any]:
    return {
        "fault": of.fault,
        "stage": of.stage.removeprefix("operator_"),
        "status": of.status,
        "reason": of.reason,
        "detail": of.detail,
        "calls": of.calls,
        "blocked": of.blocked_calls,
        "problems": len(of.problems),
        "operators": list(of.operators),
        "example": of.problems[0].args if of.problems else "",
        "where": [wording.path(column) for column in of.columns],
        "models": list(dict.fromkeys(model for model, _ in of.alone)),
    }


VIEW = View(
    "operators",
    "Operators",
    select,
    "No operators were run. Run them, then make this page again: "
    "snakemake --cores 8 results/operators.csv",
)
