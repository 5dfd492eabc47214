"""The folder of a dump, and the list of its files, which is the artifact of a complete dump."""

from __future__ import annotations

import shutil
from pathlib import Path

from scripts.core import exits

LISTING = "files.json"
"""JSON: sizes by file name."""
TABLES = "profile.txt"
"""The profiles of all repetitions, one after the other."""


def listing(folder: Path) -> dict[str, int]:
    """Sizes in bytes by path below `folder`, for every file of every repetition. Exits if there is none."""
    sizes: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and (name.parts[0].isdigit() or str(name) == TABLES):
            sizes[str(name)] = path.stat().st_size
    if not sizes:
        exits.fail(
            "none of the kinds of dump that are asked for is of this runtime", exits.UNSUPPORTED
        )
    return sizes


def clear(folder: Path) -> None:
    """Delete the files of an earlier dump, which may have had more repetitions."""
    for path in folder.glob("*"):
        if path.is_dir() and path.name.isdigit():
            shutil.rmtree(path)
    (folder / TABLES).unlink(missing_ok=True)
