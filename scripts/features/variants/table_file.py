"""Reads workflow/remedies.yaml and workflow/flag_sets.yaml."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from scripts.matrix import reading
from scripts.matrix.reading import ConfigError

Table = TypeVar("Table", bound=msgspec.Struct)


def read(path: Path, form: type[Table], sections: Iterable[str]) -> Table:
    """Read a file of the form of a struct. The entries of the mappings `sections` get their keys as names.

    Raises ConfigError that names the file and what is wrong, one error per line.
    """
    content = reading.read(path)
    try:
        for section in filter(content.__contains__, sections):
            entries = content[section].items()
            content[section] = {name: {"name": name} | entry for name, entry in entries}
        return msgspec.convert(content, form)
    except (AttributeError, TypeError, msgspec.ValidationError) as error:
        problems = str(error).splitlines()
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems)) from error
