"""The view of the report page that shows operators: what results/operators.md has."""

from __future__ import annotations

from scripts.core import checkout
from scripts.features.operators.report import page
from scripts.features.operators.report.table import JSONL, Table
from scripts.features.report.web.page_source import AGAIN, Source, View
from scripts.records import row_set
from scripts.records.page_sections import Section


def operators(source: Source) -> list[Section] | None:
    """Return the pass rates of operators by target, and their failures by cause; None if there are none."""
    path = source.root / JSONL
    table = Table(row_set.Stored(path)) if path.is_file() else None
    if table is None or not table.rows:
        return None
    return [Section("", lines=[f"{page.title(table)}."]), *page.sections(table)]


VIEWS = (
    View("operators", "Operators", operators, f"No operators were run. Run them, {AGAIN}{checkout.run_command('results/operators.csv')}", filtered=False),
)  # fmt: skip
