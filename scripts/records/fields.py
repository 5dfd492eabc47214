"""The declaration of a value of a record, and what is derived from it: row, dtypes, schema."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scripts.matrix import schemas


@dataclass(frozen=True)
class Kind:
    """A kind of value: its name for readers, in JSON Schema, and as pandas dtype."""

    words: str
    json_type: str
    dtype: str


TEXT = Kind("text", "string", "object")
INTEGER = Kind("integer", "integer", "Int64")  # pandas' own, as an integer may be missing
NUMBER = Kind("number", "number", "float64")
FLAG = Kind("true or false", "boolean", "boolean")
LIST = Kind("list", "array", "object")
OBJECT = Kind("object", "object", "object")


@dataclass(frozen=True)
class Field:
    """One value of a record, and a column of latency.csv if `column` names one.

    `path`: its place in a line of results.jsonl, such as `latency.ms`; `runs[].total_s` is a value of every object of a
    list, and `<runtime>` in a name represents any text. A column that is not a single value of the record has a `value` instead, a function of the record. `nullable`: it
    may be null. `optional`: it may be left out. `choices`: the name of a set of values in schemas.values(). `checks`:
    further keywords of JSON Schema. `varies`: another run of the same program on the same machine may have another value.
    """

    path: str
    kind: Kind
    description: str
    unit: str = ""
    column: str = ""
    nullable: bool = False
    optional: bool = False
    choices: str = ""
    varies: bool = False
    checks: Mapping[str, Any] = field(default_factory=dict)
    value: Callable[[Mapping[str, Any]], Any] | None = None

    def value_in(self, record: Mapping[str, Any]) -> Any:
        """The value for the CSV, or None. A list becomes one text."""
        value = self.value(record) if self.value else lookup(record, self.path)
        if isinstance(value, list):
            value = "; ".join(map(str, value))
        return None if value == "" else value


def lookup(record: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None if a part of the path is missing."""
    value: Any = record
    for key in path.split("."):
        value = (value or {}).get(key)
    return value


def columns(table: Iterable[Field]) -> list[Field]:
    """The columns of latency.csv, in order."""
    return [field for field in table if field.column]


def chosen(table: Iterable[Field], *paths: str) -> tuple[Field, ...]:
    """The fields at these paths, in the order of the paths, for another table that has them too.

    Raises KeyError for a path that the table does not have.
    """
    by_path = {field.path: field for field in table if field.path}
    return tuple(by_path[path] for path in paths)


def row(record: Mapping[str, Any], table: Iterable[Field]) -> dict[str, Any]:
    """The flat CSV row of a record, by column."""
    return {field.column: field.value_in(record) for field in columns(table)}


def dtypes(table: Iterable[Field]) -> dict[str, str]:
    """The pandas dtype of each column."""
    return {field.column: field.kind.dtype for field in columns(table)}


def names(table: Iterable[Field], section: str) -> list[str]:
    """The names of the fields directly in a section: `load_ms` of `run.load_ms`."""
    return [
        field.path.rpartition(".")[2] for field in table if field.path.rpartition(".")[0] == section
    ]


def pattern(path: str) -> str:
    """A regular expression for the paths that a path represents."""
    return f"^{'.+'.join(map(re.escape, re.split('<[a-z]+>', path)))}$"


def schema(table: Iterable[Field], rules: str = "record") -> dict[str, Any]:
    """The JSON Schema of a record: that of each field, and the rules about several fields in
    `<rules>.schema.json`."""
    root = schemas.read(rules)
    inside = {"": root}
    choices = schemas.values()
    for declared in sorted(
        (declared for declared in table if declared.path),
        key=lambda declared: declared.path.count("."),
    ):
        above, _, name = declared.path.rpartition(".")
        null = [None] if declared.nullable else []
        if declared.choices:
            body: dict[str, Any] = {"enum": [*choices[declared.choices], *null]}
        else:
            kind = declared.kind.json_type
            # The fields inside are added to the copy.
            body = {"type": [kind, "null"] if null else kind} | copy.deepcopy(dict(declared.checks))
        names, key = ("patternProperties", pattern(name)) if "<" in name else ("properties", name)
        inside[above].setdefault(names, {})[key] = body
        if not declared.optional:
            inside[above].setdefault("required", []).append(name)
        inside[declared.path] = body
        if declared.kind is LIST:
            inside[f"{declared.path}[]"] = body.setdefault("items", {})
    return root
