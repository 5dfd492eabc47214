"""Why a cell takes as long as it does: its dispatches and modules, beside PyTorch and the machine's limit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scripts.features.profile import reading
from scripts.features.profile.account import account
from scripts.features.profile.page import worth_looking_at
from scripts.features.report.web.source import Source, View
from scripts.matrix import stages
from scripts.matrix.cell import Cell, Kind

MOST = 60
"""Modules and dispatches of a cell that are kept, those with the most time."""


def select(source: Source) -> dict[str, Any] | None:
    """Return the account of every cell that has a profile; None if there is none."""
    found = [one for name in _profiled(source) if (one := _account(source, name))]
    return {"cells": found} if found else None


def _profiled(source: Source) -> list[str]:
    """Return the names of the IREE cells that have a profile, in the order of the records, then others."""
    stage = stages.STAGES["profile_iree"]
    below = source.root / stage.path(".")
    names = []
    for path in sorted(below.glob(f"*/iree/**/{reading.PROFILE}")):
        if path.stat().st_size:
            text = path.parent.relative_to(below).as_posix()
            names.append(str(Cell.parse(text, Kind.IREE_DUMP).row))
    return names


def _account(source: Source, name: str) -> dict[str, Any] | None:
    """Return the account of a cell; None if a file of it is damaged."""
    try:
        profiles = reading.read(source.results, name)
        found = account(profiles)
    except (reading.NoProfile, ValueError, LookupError, TypeError):
        return None
    threads = profiles.iree["threads"]
    return {
        "cell": name,
        "threads": threads,
        "call_ms": dict(found.call_ms),
        "limit_ms": found.limit_ms,
        "parts": [asdict(one) for one in found.parts[:MOST]],
        "kernels": [asdict(one) for one in found.kernels[:MOST]],
        "first": worth_looking_at(found, threads),
    }


VIEW = View(
    "why",
    "Why slow",
    select,
    "There are no profiles. Make them, then make this page again: "
    "snakemake --cores 8 profile --config models=vit",
)
