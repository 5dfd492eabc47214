"""Recorded outcomes, read once each: Snakemake asks about the same cell several times."""

from __future__ import annotations

import os

from scripts.lib.supervision import outcome
from scripts.lib.supervision.outcome import Outcome

_READ: dict[str, tuple[tuple[int, int, int], Outcome]] = {}


def outcome_of(status_path: str) -> Outcome | None:
    """The outcome in a status file, None where there is none; read again when the file changes.

    Raises ValueError, naming the file, where it is not a status file.
    """
    try:
        found = os.stat(status_path)
    except FileNotFoundError:
        return None
    version = (found.st_ino, found.st_mtime_ns, found.st_size)
    known = _READ.get(status_path)
    if known is None or known[0] != version:
        known = _READ[status_path] = (version, outcome.read(status_path))
    return known[1]
