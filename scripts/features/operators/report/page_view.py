"""The view of the report page that shows operators."""

from __future__ import annotations

from typing import Any

from scripts.core import checkout
from scripts.features.operators.report import analysis, page
from scripts.features.operators.report.table import JSONL, Table
from scripts.features.report.web.page_source import AGAIN, Source, View
from scripts.records import row_set, wording

MOST_FIXES = 300
"""Failures of operators that are kept; operators.csv has all."""


def operators(source: Source) -> dict[str, Any] | None:
    """Return the pass rates of operators by target, and their failures by cause."""
    path = source.root / JSONL
    if not path.is_file():
        return None
    table = Table(row_set.Stored(path))
    if not table.rows:
        return None
    return {
        "title": page.title(table),
        "targets": [_rates(table, target) for target in table.targets],
        "fixes": [_fix(fix) for fix in analysis.fixes(table)[:MOST_FIXES]],
        "speedups": [
            [row.problem.op, wording.path(row.column), row.speedup]
            for row in table.rows
            if row.speedup is not None and row.column.target
        ],
    }


def _rates(table: Table, target: str) -> dict[str, Any]:
    rates = analysis.rates(table, target)
    return {
        "target": target,
        "ran": rates.has_run,
        "columns": [column.name for column in rates.columns],
        "operators": [
            [
                operator.op,
                operator.calls,
                [[rate.passed, rate.total] for rate in (*operator.by_column, operator.best)],
            ]
            for operator in (rates.all, *rates.operators)
        ],
    }


def _fix(fix: analysis.Fix) -> dict[str, Any]:
    return {
        **{key: getattr(fix.first, key) for key in ("fault", "status", "reason")},
        "detail": fix.detail,
        "calls": fix.calls,
        "stage": fix.first.stage.removeprefix("operator_"),
        "blocked": fix.blocked_calls,
        "problems": len(fix.problems),
        "operators": fix.operators,
        "example": fix.problems[0].args,
        "where": [wording.path(column) for column in fix.columns],
        "models": list(dict.fromkeys(model for model, _ in fix.alone)),
    }


VIEWS = (
    View("operators", "Operators", operators, f"No operators were run. Run them, {AGAIN}{checkout.run_command('results/operators.csv')}"),
)  # fmt: skip
