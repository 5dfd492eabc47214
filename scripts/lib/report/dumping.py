"""The folder of a dump, and the list of what it left: the artifact that says it is whole."""

from __future__ import annotations

import shutil
from pathlib import Path

from scripts.lib.core import exits

TABLES = "profile.txt"
"""The profiles of all repetitions, one after the other."""


def listing(folder: Path) -> dict[str, int]:
    """Path below `folder` to bytes, of every file of every repetition; exits where there is none."""
    kept = [path for path in folder.rglob("*") if path.is_file() and _is_dump(path, folder)]
    found = {str(path.relative_to(folder)): path.stat().st_size for path in sorted(kept)}
    if not found:
        exits.fail(
            "none of the kinds of dump that are asked for is of this runtime", exits.UNSUPPORTED
        )
    return found


def clear(folder: Path) -> None:
    """Take away what an earlier dump left, more repetitions than this one's among it."""
    for path in folder.glob("*"):
        if path.is_dir() and path.name.isdigit():
            shutil.rmtree(path)
    (folder / TABLES).unlink(missing_ok=True)


def _is_dump(path: Path, folder: Path) -> bool:
    """In the folder of a repetition, or the tables of all of them."""
    relative = path.relative_to(folder)
    return relative.parts[0].isdigit() or str(relative) == TABLES
