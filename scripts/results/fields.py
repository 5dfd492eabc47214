"""The declaration of a value of a record, and what is derived from it: row, dtypes, and the form that msgspec checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any, Literal, get_origin

import msgspec


@dataclass(frozen=True)
class Kind:
    """A kind of value: its name for readers, its type, and its pandas dtype."""

    words: str
    type: Any
    dtype: str


TEXT = Kind("text", str, "object")
INTEGER = Kind(
    "integer", Annotated[int, msgspec.Meta(le=2**63 - 1)], "Int64"
)  # pandas' own, as an integer may be missing
NUMBER = Kind("number", float, "float64")
FLAG = Kind("true or false", bool, "boolean")
LIST = Kind("list", list, "object")
OBJECT = Kind("object", dict, "object")


@dataclass(frozen=True)
class Field:
    """One value of a record, and a column of latency.csv if `column` names one.

    `path`: its place in a line of results.jsonl, such as `latency.ms`; `runs[].total_s` is a value of every object of a
    list, and `<runtime>` in a name represents any text. A column that is not a single value of the record has a `value` instead, a function of the record. `nullable`: it
    may be null. `optional`: it may be left out. `checks`: the bounds of the value
    (msgspec.Meta), or its type where that is narrower than that of the kind; columns.CLOSED: an object, or each
    object of a list, has no values but those that are declared. `varies`: another run of the same program on the same machine may have another value.
    """

    path: str
    kind: Kind
    description: str
    unit: str = ""
    column: str = ""
    nullable: bool = False
    optional: bool = False
    varies: bool = False
    checks: Any = None
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


def form(table: Sequence[Field], above: str = "", needed: Mapping[str, Any] | None = None, closed: bool = False) -> Any:  # fmt: skip
    """The class, for msgspec, of a section of records, or of whole ones. `closed`: whether it has no other values.

    `needed`: what a reader needs of a record that an older version or another tool may have written, with the types of these
    values by their paths. Of any other value, only the type is checked, and it may be missing.
    """
    members: list[Any] = []
    for field in table:
        parent, _, name = field.path.rpartition(".")
        if not field.path or parent != above or "<" in name:
            continue
        kind = (needed or {}).get(field.path) or _type(table, field, needed)
        is_needed = not field.optional
        if needed is not None:
            has_needed = any(f"{path}.".startswith(f"{field.path}.") for path in needed)
            is_needed = has_needed and not (field.nullable and field.kind is OBJECT)
        if field.nullable or (needed is not None and not is_needed):
            kind |= None
        members.append((name, kind) if is_needed else (name, kind, None))
    members.sort(key=len)  # those with a default are last
    return msgspec.defstruct("Record", members, forbid_unknown_fields=closed)


def _type(table: Sequence[Field], field: Field, needed: Mapping[str, Any] | None) -> Any:
    """The type of a value that is there, and not null."""
    is_list, bounds = field.kind is LIST, None
    kind, inside = field.kind.type, f"{field.path}[]" if is_list else field.path
    if isinstance(field.checks, msgspec.Meta):
        bounds = field.checks
    elif field.checks is not None and (needed is None or get_origin(field.checks) is not Literal):
        kind = field.checks
    if any(other.path.rpartition(".")[0] == inside for other in table):
        closed = bool(bounds and (bounds.extra or {}).get("closed"))
        inner = form(table, inside, needed, closed and (needed is None or is_list))
        kind = GenericAlias(list, inner) if is_list else inner
    return Annotated[kind, bounds] if bounds else kind


def checker(table: Sequence[Field], section: str = "") -> Callable[[Any], str]:
    """A function that returns how a record, or a section of one, differs from its declaration; "" if it does not."""
    known = next((field for field in table if section and field.path == section), None)
    kind = _type(table, known, None) if known else form(table, closed=True)
    whole = kind | None if known and known.nullable else kind
    patterns = [
        (field.path.rpartition(".")[0], re.compile(pattern(field.path)), _type(table, field, None) | None)
        for field in table
        if "<" in field.path and not section
    ]  # fmt: skip

    def problem(value: Any) -> str:
        where = ""
        try:
            msgspec.convert(value, whole)
            for parent, path, kind in patterns:
                for name, inner in (lookup(value, parent) or {}).items():
                    if path.match(where := f"{parent}.{name}"):
                        msgspec.convert(inner, kind)
        except msgspec.ValidationError as error:
            return f"{error} - at `$.{where}`" if where else str(error)
        return ""

    return problem
