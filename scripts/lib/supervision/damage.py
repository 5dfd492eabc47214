"""Files that a stage reads of other stages: as they were made, or damaged since."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.lib.artifacts import digest
from scripts.lib.supervision import outcome


@dataclass(frozen=True)
class Damage:
    """The status file of the stage that made a damaged file, and what is wrong with that file."""

    status_path: Path
    what: str


def first(command: Sequence[str], own: Collection[Path]) -> Damage | None:
    """The first damaged file among those that a command names; None where all are whole.

    A word of the command, or the value in `--option=value`, is such a file where the usage file
    beside it has its digest. `own` are the artifacts that the command is to make.
    """
    for word in command:
        path = Path(word.partition("=")[2] if word.startswith("--") else word)
        if path in own or not os.path.isfile(path.parent / outcome.USAGE):
            continue
        if what := difference(path):
            return Damage(path.with_name(outcome.STATUS), what)
    return None


def difference(path: Path) -> str:
    """What is wrong with a file that a stage has made; "" where nothing is, or no digest of it is
    known."""
    try:
        usage = outcome.read_usage(path)
    except (OSError, ValueError) as error:
        return str(error)
    made = usage.artifacts.get(path.name) if usage else None
    if made is None or not (found := digest.difference(path, made)):
        return ""
    return f"{path} is damaged: {found}; the next run makes it again"
