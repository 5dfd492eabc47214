"""Recorded outcomes, read once each: Snakemake asks about the same cell several times."""

from __future__ import annotations

import os
from dataclasses import dataclass

from scripts.core import digest
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome


@dataclass(frozen=True)
class Recorded:
    """The outcome in a status file. `whole`: its usage file can be read, and every artifact has its
    original size. The contents of artifacts are checked when they are read (supervise/outcome.py)."""

    version: tuple[int, int, int]
    outcome: Outcome
    whole: bool


_READ: dict[str, Recorded] = {}


def outcome_of(status_path: str) -> Recorded | None:
    """The contents of a status file, or None if there is none. It is read again when it changes.

    Raises ValueError, naming the file, if it is not a status file.
    """
    try:
        stat = os.stat(status_path)
    except FileNotFoundError:
        return None
    version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    known = _READ.get(status_path)
    if known is None or known.version != version:
        ended = outcome.read(status_path)
        known = _READ[status_path] = Recorded(version, ended, _is_whole(status_path))
    return known


def _is_whole(status_path: str) -> bool:
    folder = os.path.dirname(status_path)
    try:
        usage = outcome.read_usage(status_path)
        return usage is not None and all(
            digest.has_size(f"{folder}/{name}", artifact)
            for name, artifact in usage.artifacts.items()
        )
    except (OSError, ValueError):
        return False
