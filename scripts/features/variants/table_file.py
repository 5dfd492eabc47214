"""Reads workflow/remedies.yaml and workflow/flag_sets.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from scripts.matrix import reading
from scripts.matrix.reading import ConfigError


class Checked(Protocol):
    """A struct that checks its values."""

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with them."""


Table = TypeVar("Table", bound=Checked)


def read(path: Path, form: type[Table], sections: Iterable[str]) -> Table:
    """Read a file of the form of a struct. The entries of the mappings `sections` get their keys as names.

    Raises ConfigError that names the file and what is wrong.
    """
    content = reading.read(path)
    try:
        for section in filter(content.__contains__, sections):
            entries = content[section].items()
            content[section] = {name: {"name": name} | entry for name, entry in entries}
        found = msgspec.convert(content, form)
    except (AttributeError, TypeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if problems := list(found.problems()):
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return found
