"""The files that a task of a batch writes into a folder of its own, and a list of them: `files.json`.

The list has the size and checksum of each file. It is part of the result of the task, so that tasks
that read the files change with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.core import atomic, digest
from scripts.core.digest import Digest

LIST = "files.json"


def record(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Write the list of the files in a folder, and return it."""
    files = {name: dataclasses.asdict(digest.of(folder / name)) for name in names}
    atomic.write_json(folder / LIST, files)
    return files


def difference(folder: Path, files: Mapping[str, Mapping[str, Any]] | None) -> str:
    """Return how the files of a folder differ from those that were listed; "" if they do not, or if
    none were listed."""
    if not files:
        return ""
    try:
        if atomic.read_json(folder / LIST) != files:
            return f"{folder / LIST} lists other files than the ones that were made"
    except (OSError, ValueError) as error:
        return str(error)
    for name, recorded in files.items():
        if what := digest.difference(folder / name, Digest(**recorded)):
            return f"{folder / name} is damaged: {what}"
    return ""
