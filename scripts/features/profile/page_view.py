"""The view of the report page that shows where the time of cells goes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scripts.core import checkout
from scripts.features.profile import profile_files
from scripts.features.profile.account import account
from scripts.features.profile.page import worth_looking_at
from scripts.features.report.web.page_source import AGAIN, Source, View
from scripts.matrix import stages
from scripts.matrix.cell import Cell, Kind

MOST_PARTS = 60
"""Modules and dispatches of a profiled cell that are kept, those with the most time."""


def why(source: Source) -> dict[str, Any] | None:
    """Return the account of every cell that has a profile: its dispatches and modules, beside PyTorch and the machine's
    limit."""
    below = source.root / stages.STAGES["profile_iree"].path(".")
    cells = []
    for path in sorted(below.glob(f"*/iree/**/{profile_files.PROFILE}")):
        dump = path.parent.relative_to(below).as_posix()
        if path.stat().st_size and (
            account := _account(source, str(Cell.parse(dump, Kind.IREE_DUMP).row))
        ):
            cells.append(account)
    return {"cells": cells} if cells else None


def _account(source: Source, name: str) -> dict[str, Any] | None:
    """Return the account of a cell; None if a file of it is damaged."""
    try:
        profiles = profile_files.read(source.results, name)
        accounted = account(profiles)
    except (profile_files.NoProfile, ValueError, LookupError, TypeError):
        return None
    threads = profiles.iree["threads"]
    return {
        "cell": name,
        "threads": threads,
        "call_ms": dict(accounted.call_ms),
        "limit_ms": accounted.limit_ms,
        "parts": [asdict(part) for part in accounted.parts[:MOST_PARTS]],
        "kernels": [asdict(kernel) for kernel in accounted.kernels[:MOST_PARTS]],
        "first": worth_looking_at(accounted, threads),
        "doubts": accounted.doubts,
    }


VIEWS = (
    View("why", "Why slow", why, f"There are no profiles. Make them, {AGAIN}{checkout.run_command('profile', 'models=vit')}"),
)  # fmt: skip
