"""The files that a task of a batch writes, and whether they are still those of its result.

A task writes its files into a folder of its own, and a list of them, `files.json`, with their sizes
and checksums. The same list is part of its result, so that tasks that read the files change with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.core import atomic, digest
from scripts.core.digest import Digest

LIST = "files.json"
Files = Mapping[str, Mapping[str, Any]]
"""Size and checksum by the name of a file."""


def record(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Write the list of the files in a folder, and return it."""
    files = {name: dataclasses.asdict(digest.of(folder / name)) for name in names}
    atomic.write_json(folder / LIST, files)
    return files


def difference(folder: Path, files: Files) -> str:
    """Return how the files of a folder differ from the ones that were made, or "" if they do not."""
    try:
        listed = atomic.read_json(folder / LIST)
    except (OSError, ValueError) as error:
        return str(error)
    if listed != files:
        return f"{folder / LIST} lists other files than the ones that were made"
    for name, made in files.items():
        if what := digest.difference(folder / name, Digest(**made)):
            return f"{folder / name} is damaged: {what}"
    return ""
