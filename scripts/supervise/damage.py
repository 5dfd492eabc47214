"""Checks whether the files that a stage reads from other stages are as those stages wrote them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core import digest
from scripts.supervise import outcome


@dataclass(frozen=True)
class Damage:
    """A damaged file: the status file of the stage that made it, and the difference."""

    status_path: Path
    what: str


def first(command: Sequence[str], own: Collection[Path]) -> Damage | None:
    """The first damaged file among those that a command names; None if there is none.

    A word of the command, or the value in `--option=value`, is checked if it is a file whose digest
    is in the usage file of its folder. `own` are the artifacts that the command will write.
    """
    for word in command:
        path = Path(word.partition("=")[2] if word.startswith("--") else word)
        if path in own or not os.path.isfile(path.parent / outcome.USAGE):
            continue
        if what := difference(path):
            return Damage(path.with_name(outcome.STATUS), what)
    return None


def difference(path: Path) -> str:
    """How a file differs from what its stage wrote; "" if it does not, or if no digest is known."""
    try:
        usage = outcome.read_usage(path)
    except (OSError, ValueError) as error:
        return str(error)
    made = usage.artifacts.get(path.name) if usage else None
    if made is None or not (found := digest.difference(path, made)):
        return ""
    return f"{path} is damaged: {found}; the next run makes it again"
