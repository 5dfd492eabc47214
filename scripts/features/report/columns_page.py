"""The page docs/columns.md, every column of the CSV files, and docs/columns.csv, every field of the JSON lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scripts.features.kernels import columns as kernels
from scripts.features.operators.report import columns as operators
from scripts.features.variants import tuned_columns as tuning
from scripts.matrix import schemas
from scripts.records import fields, markdown
from scripts.records.columns import FIELDS
from scripts.records.fields import Field
from scripts.verify.codes import CODES

INTRODUCTION = """\
# Columns and fields

<!-- Made by `vmfbench docs`. -->

An empty value of the CSV is null in the JSON, or a field that is left out. MiB are
2<sup>20</sup> bytes. [columns.csv](columns.csv) has every field of the JSON lines, with the column that it is. *Varies* marks values that may differ in another run of the same program on the same machine.
"""


@dataclass(frozen=True)
class Table:
    """A CSV file, the JSON lines that it is made of, and the declaration of both (`module`)."""

    csv: str
    jsonl: str
    introduction: str
    module: str
    fields: tuple[Field, ...]


TABLES = (
    Table("latency.csv", "results.jsonl", "One row for every IREE cell and every baseline cell, including failed ones.", "scripts/records/columns.py", FIELDS),
    Table("operators.csv", "operators.jsonl", "One row for every operator problem on every lowering path and target, and under every baseline.\n`operators.jsonl` is in `results/operators/`.", "scripts/features/operators/report/columns.py", operators.FIELDS),
    Table("kernels.csv", "kernels.jsonl", "One row for every kernel at every shape, on every lowering path and target, and under every baseline.\n`kernels.jsonl` has all sections of `results.jsonl`, and the section `kernel`.", "scripts/features/kernels/columns.py", (*kernels.COLUMNS, kernels.OWN[0])),
    Table("tuned.csv", "tuned.jsonl", "For every tuned model and target the rows `tuned` and `default`, and the rows of eager and inductor. The other columns are those\nof `latency.csv`. `tuned.jsonl` has all sections of `results.jsonl`, and the section `tuning`.", "scripts/features/variants/tuned_columns.py", tuning.OWN),
)  # fmt: skip


def page(tables: Iterable[Table]) -> str:
    """The whole page, as Markdown."""
    return "\n".join([INTRODUCTION, *(part for table in tables for part in _parts(table))])


def _parts(table: Table) -> Iterator[str]:
    """The parts of the page about a table."""
    yield f"## {table.csv}\n"
    yield f"{table.introduction} Declared in `{table.module}`.\n"
    rows: list[tuple[str, ...]] = [
        (
            *(f"`{one.column}`", _type(one), one.unit, "yes" if one.varies else ""),
            one.description,
        )
        for one in fields.columns(table.fields)
    ]
    head = ("column", "type", "unit", "varies", "what it is")
    yield _markdown(head, rows)
    if table is TABLES[0]:
        yield "### verification\n"
        yield _markdown(
            ("code", "what it says of the cell"),
            [(f"`{code}`", meaning) for code, meaning in CODES.items()],
        )


FIELD_HEAD = (
    "file",
    "field",
    "column of the CSV",
    "type",
    "may be",
    "unit",
    "varies",
    "what it is",
)


def fields_csv(tables: Iterable[Table]) -> str:
    """Every field of the JSON lines, as CSV."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(FIELD_HEAD)
    for table in tables:
        lines.writerows(
            (
                *(table.jsonl, one.path, one.column, _type(one).replace("`", "")),
                ", ".join(["null"] * one.nullable + ["left out"] * one.optional),
                *(one.unit, "yes" if one.varies else "", one.description),
            )
            for one in sorted(table.fields, key=lambda one: one.path.partition(".")[0])
            if one.path
        )
    return text.getvalue()


def _type(one: Field) -> str:
    """The kind of a field, or its values if they are a fixed set."""
    allowed = schemas.values()[one.choices] if one.choices else one.checks.get("enum")
    return ", ".join(f"`{value}`" for value in allowed if value) if allowed else one.kind.words


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return markdown.table(head, rows).replace("  |", " |")
