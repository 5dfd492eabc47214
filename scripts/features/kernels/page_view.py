"""The view of the report page that shows kernels: what results/kernels.md has."""

from __future__ import annotations

from scripts.core import checkout
from scripts.features.kernels import page
from scripts.features.report.web.page_source import AGAIN, Source, View
from scripts.records import row_set
from scripts.records.page_sections import Section
from scripts.run import outputs


def kernels(source: Source) -> list[Section] | None:
    """Return the means of the runtimes, and the GB/s of each kernel by shape; None if there are no kernels."""
    path = source.root / outputs.files_of("kernels")[2]
    records = list(row_set.Stored(path)) if path.is_file() else []
    return page.sections(records, ()) if records else None


VIEWS = (
    View("kernels", "Kernels", kernels, f"No kernels were measured. Measure them, {AGAIN}{checkout.run_command('results/kernels.csv')}", filtered=False),
)  # fmt: skip
