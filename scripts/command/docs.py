"""Write the pages of docs/ that are made from declarations: columns.md and columns.csv, and tables of flag sets and remedies."""

from __future__ import annotations

import argparse
import csv
import io
import typing
from collections.abc import Iterable, Iterator, Sequence

from scripts.core import atomic, checkout, exits
from scripts.features.variants import document
from scripts.records import fields, markdown, row_set
from scripts.records.fields import Field
from scripts.records.row_set import RowSet
from scripts.verify.verification import CODES

INTRODUCTION = """\
# Columns and fields

<!-- Made by `vmfbench docs`. -->

An empty value of the CSV is null in the JSON, or a field that is left out. Text of the CSV that a spreadsheet would take for a formula (it begins
with `=`, `+`, `-` or `@`) has an apostrophe before it, and control characters are written as `\\x1b`. MiB are
2<sup>20</sup> bytes. [columns.csv](columns.csv) has every field of the JSON lines, with the column that it is. *Varies* marks values that may differ in another run of the same program on the same machine.
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
    """The whole page, as Markdown."""
    return "\n".join([INTRODUCTION, *(part for each in sets for part in _parts(each))])


def _parts(shown: RowSet) -> Iterator[str]:
    """The parts of the page about a CSV."""
    yield f"## {shown.csv.name}\n"
    yield f"{shown.about} Declared in `{shown.declared_in}`.\n"
    rows = [
        (
            f"`{field.column}`",
            _type(field),
            field.unit,
            "yes" if field.varies else "",
            field.description,
        )
        for field in fields.columns(shown.described)
    ]
    yield _markdown(("column", "type", "unit", "varies", "what it is"), rows)
    if shown.name == "latency":
        yield "### verification\n"
        codes = [(f"`{code}`", meaning) for code, meaning in CODES.items()]
        yield _markdown(("code", "what it says of the cell"), codes)


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


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return markdown.table(head, rows).replace("  |", " |")
