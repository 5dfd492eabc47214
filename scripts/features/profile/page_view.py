"""The view of the report page that shows where the time of cells goes: what `vmfbench why` prints."""

from __future__ import annotations

from scripts.core import checkout
from scripts.features.profile import page, profile_files
from scripts.features.profile.account import account
from scripts.features.report.web.page_source import AGAIN, Source, View
from scripts.matrix import stages
from scripts.matrix.cell import Cell, Kind
from scripts.records.page_sections import Section


def why(source: Source) -> list[Section] | None:
    """Return the account of every cell that has a profile: its modules and dispatches, beside PyTorch and the machine's
    limit; None if there is no profile."""
    below = source.root / stages.STAGES["profile_iree"].path(".")
    cells = [
        str(Cell.parse(path.parent.relative_to(below).as_posix(), Kind.IREE_DUMP).row)
        for path in sorted(below.glob(f"*/iree/**/{profile_files.PROFILE}"))
        if path.stat().st_size
    ]
    places = {str(row.cell): index for index, row in enumerate(source.rows)}
    parts = {cell: known for cell in cells if (known := _sections(source, cell))}
    return [
        Section(cell, parts=known, folded=at > 0, rows=[("details",)] if cell in places else (), places=[places.get(cell)])
        for at, (cell, known) in enumerate(parts.items())
    ] or None  # fmt: skip


def _sections(source: Source, cell: str) -> list[Section]:
    """Return what is shown of a cell; nothing if a file of it is damaged."""
    try:
        profiles = profile_files.read(source.results, cell)
        return page.sections(profiles, account(profiles))
    except (profile_files.NoProfile, ValueError, LookupError, TypeError):
        return []


VIEWS = (
    View("why", "Why slow", why, f"There are no profiles. Make them, {AGAIN}{checkout.run_command('profile', 'models=vit')}"),
)  # fmt: skip
