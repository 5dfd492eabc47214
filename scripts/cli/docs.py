"""Write the pages of docs/ that are made from declarations: columns.md and columns.csv, and tables of flag sets and remedies."""

from __future__ import annotations

import argparse
import csv
import io
import re
import typing
from collections.abc import Iterable, Iterator, Sequence

from scripts.core import atomic, checkout, exits
from scripts.measure.verify.verification import CODES
from scripts.results import columns, row_set, wording
from scripts.results.columns import Field
from scripts.results.row_set import RowSet
from scripts.tools.variants import document

INTRODUCTION = """\
# Columns and fields

<!-- Made by `vmfbench docs`. -->

An empty value of the CSV is null or left out in the JSON. Text of the CSV that begins with `=`, `+`, `-` or `@` has an apostrophe before it, so that
no spreadsheet takes it for a formula; control characters are written as `\\x1b`. A value with `_low` and `_high` has a [99 % interval](timing.md#intervals).
*Varies*: the value may differ in another run on the same machine. [columns.csv](columns.csv) has every field of the JSON lines.
"""

FIELD_HEAD = "file,field,column of the CSV,type,may be,unit,varies,what it is\n"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    checkout.refuse_installed("vmfbench docs")
    docs = checkout.ROOT / "docs"
    atomic.write_text(docs / "columns.md", page(row_set.loaded()))
    atomic.write_text(docs / "columns.csv", fields_csv(row_set.loaded()))
    for part in document.PARTS:
        path = docs / part.page
        try:
            atomic.write_text(path, part.within(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            exits.fail(f"{path}: {error}")


def page(sets: Iterable[RowSet]) -> str:
    """The whole page, as Markdown. Columns that an earlier set has with the same meaning are only named."""
    described: dict[str, tuple[str, str]] = {}
    return "\n".join([INTRODUCTION, *(part for each in sets for part in _parts(each, described))])


def _parts(shown: RowSet, described: dict[str, tuple[str, str]]) -> Iterator[str]:
    """The parts of the page about a CSV. `described`: the lines of columns so far, to which those of this CSV are added."""
    yield f"## {shown.csv.name}\n"
    yield f"{shown.about} Declared in `{shown.declared_in}`.\n"
    lines = dict(_lines(columns.columns(shown.described)))
    known = [names for names, line in lines.items() if described.get(names) == line]
    if known:
        yield f"As above: {', '.join(known)}.\n"
    yield wording.table(
        ("column", "type", "what it is"),
        [(names, *line) for names, line in lines.items() if names not in known],
    )
    described |= lines
    if shown.name == "latency":
        yield "### verification\n"
        codes = [(f"`{code}`", meaning) for code, meaning in CODES.items()]
        yield wording.table(("code", "what it says of the cell"), codes)


def _lines(columns: Sequence[Field]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names, type and meaning of each column; a value and the ends of its interval are one line."""
    names = [field.column for field in columns]
    for field in columns:
        ends = [name for name in names if name != field.column and _value(name) == field.column]
        if _value(field.column) != field.column and _value(field.column) in names:
            continue  # an end of an interval
        # The description names a number of things.
        unit = "" if field.unit in ("count", "number") else field.unit
        kind = ", ".join(filter(None, (_type(field), unit, "varies" * field.varies)))
        yield ", ".join(f"`{name}`" for name in (field.column, *ends)), (kind, field.description)


def _value(name: str) -> str:
    """The column whose interval a column is an end of, by its name: `latency_ms` of `latency_low_ms`."""
    return re.sub(r"_(low|high)(?=_|$)", "", name)


def fields_csv(sets: Iterable[RowSet]) -> str:
    """Every field of the JSON lines, as CSV."""
    text = io.StringIO()
    text.write(FIELD_HEAD)
    lines = csv.writer(text, lineterminator="\n")
    for one_set in sets:
        lines.writerows(
            (
                *(one_set.jsonl.name, field.path, field.column, _type(field).replace("`", "")),
                ", ".join(["null"] * field.nullable + ["left out"] * field.optional),
                *(field.unit, "yes" if field.varies else "", field.description),
            )
            for field in sorted(one_set.described, key=lambda field: field.path.partition(".")[0])
            if field.path
        )
    return text.getvalue()


def _type(field: Field) -> str:
    """The kind of a field, or its values if they are a fixed set."""
    is_one_of = typing.get_origin(field.checks) is typing.Literal
    allowed = typing.get_args(field.checks) if is_one_of else ()
    return ", ".join(f"`{value}`" for value in allowed if value) if allowed else field.kind.words
