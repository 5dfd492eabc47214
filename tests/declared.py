"""Finds values of a record that no field declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from scripts.results import columns
from scripts.results.columns import FIELDS, Field


def undeclared(value: Any, table: Iterable[Field] = FIELDS) -> Iterator[str]:
    """Paths that no field declares; an object without declared fields may hold anything."""
    declared = {one.path for one in table}
    parents = {path.rpartition(".")[0] for path in declared}
    patterns = [re.compile(columns.pattern(path)) for path in declared if "<" in path]

    def inside(value: Any, path: str) -> Iterator[str]:
        if path and path not in declared and not path.endswith("[]"):
            if not any(one.match(path) for one in patterns):
                yield path
        elif isinstance(value, dict) and path in parents:
            for key, inner in value.items():
                yield from inside(inner, f"{path}.{key}" if path else key)
        elif isinstance(value, list):
            for inner in value:
                yield from inside(inner, f"{path}[]")

    yield from inside(value, "")
