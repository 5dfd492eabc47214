"""Print the summary of the operator problems at the end of a run."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from scripts.features.operators.report import analysis, page
from scripts.features.operators.report.analysis import Fix, Scored
from scripts.features.operators.report.table import Table
from scripts.records import wording
from scripts.records.screen import plain_table

FIXES = 5
"""Failures on the screen; results/operators.md has all."""


@dataclass(frozen=True)
class Screen:
    """Pass rates and scores by lowering path, and the failures that concern the most calls."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(page.title(self.table), style="bold")
        yield Text("; ".join(self.table.provenance.where), style="dim")
        yield Text()
        yield self._paths()
        if fixes := analysis.fixes(self.table):
            yield Text()
            yield Text("What to fix first", style="bold")
            yield Text()
            width = max(options.max_width, 40) - 2
            for fix in fixes[:FIXES]:
                yield Text(_counted(fix))
                detail = textwrap.shorten(fix.detail, width, placeholder=" …")
                yield Text(f"  {detail}", style="dim")

    def _paths(self) -> RichTable:
        """Return pass rates and BackendBench's scores, by lowering path and for the best path."""
        scored = {
            scored_column.label: scored_column for scored_column in analysis.scored(self.table)
        }
        shown = plain_table()
        shown.add_column("")
        for name in ("pass", "correctness", "performance", "perf@1"):
            shown.add_column(name, justify="right")
        for target in self.table.targets:
            target_rates = analysis.rates(self.table, target)
            labels = [column.label for column in target_rates.columns]
            rates = [*target_rates.all.by_column]
            if len(labels) > 1:
                labels.append(analysis.best_path(target))
                rates.append(target_rates.all.best)
            for label, rate in zip(labels, rates, strict=True):
                passed = f"{rate.passed:,} of {rate.of:,}"
                shown.add_row(label, passed, *_score(scored.pop(label, None)))
        for label, scored_column in scored.items():
            shown.add_row(label, "", *_score(scored_column))
        return shown


def _score(scored: Scored | None) -> list[str]:
    if scored is None or scored.theirs is None:
        return [wording.NOT_IN_MATRIX] * 3
    scores = scored.theirs
    return [f"{scores.correctness:.1%}", f"{scores.performance:.3f}", f"{scores.perf_at_p:.1%}"]


def _counted(fix: Fix) -> str:
    """Return `iree-codegen: 1,200 calls, 3 problems of aten.foo and 1 more operator`."""
    count, others = len(fix.problems), len(fix.operators) - 1
    more = f" and {others} more operator{'s' * (others > 1)}" if others else ""
    problems = f"{count} problem{'s' * (count > 1)} of {fix.operators[0]}{more}"
    return f"{fix.first.fault}: {fix.calls:,} calls, {problems}"
