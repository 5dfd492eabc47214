"""The rows of results/operators.csv."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.features.operators.problems.problem import read_problems
from scripts.features.operators.report import columns, page, problem_record, table
from scripts.features.operators.report.page import Screen
from scripts.features.operators.report.table import Table
from scripts.features.operators.settings import part
from scripts.matrix.matrix import Matrix
from scripts.records.row_set import Content, RowSet


def content(matrix: Matrix, args: argparse.Namespace) -> Content:
    source = atomic.read_json(args.source) if args.source else {}
    return Content(_records(matrix), lambda records: page.page(Table(records), source))


def _records(matrix: Matrix, root: Path = Path()) -> Iterator[Mapping[str, Any]]:
    """Yield the records of all problems, by batch."""
    for batch in part(matrix).batch_names():
        listed = root / f"results/operators/batches/{batch}.jsonl"
        yield from problem_record.of_batch(root, matrix, batch, read_problems(listed))


def _form(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what records of the same form have in common."""
    ended = record["outcome"]
    return table.column(record).label, ended["status"], ended["stage"], ended["reason"]


ROW_SET = RowSet(
    name="operators",
    jsonl=table.JSONL,
    about="One row for every operator problem on every lowering path and target, and under every baseline.\n`operators.jsonl` is in `results/operators/`.",
    declared_in="scripts/features/operators/report/columns.py",
    fields=columns.FIELDS,
    columns=columns.COLUMNS,
    described=columns.FIELDS,
    content=content,
    screen=lambda records: Screen(Table(records)),
    add_options=lambda parser: parser.add_argument(
        "--source", type=Path, help="results/operators/source.json"
    ),
    rules="operator_record",
    name_of=table.name_of,
    alike=_form,
)
