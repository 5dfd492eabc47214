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
from scripts.supervise import outcome
from scripts.verify import verification


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


def _contradiction(record: Mapping[str, Any]) -> str:
    """Return how the values of a record contradict each other; "" if they do not."""
    ended, code = record["outcome"], record["verification"]["code"]
    status = ended["status"]
    is_failed = status not in (outcome.OK, outcome.SKIPPED)
    if (is_failed and not (ended["reason"] and ended["detail"])) or bool(
        ended["fault"]
    ) != is_failed:
        return f"{status} with reason {ended['reason']!r}, detail {ended['detail']!r}, fault {ended['fault']!r}"
    # One whose target is compiled and not run is ok without a latency.
    is_measured = status == outcome.OK and ended["stage"] != "operator_compile"
    if record["latency"] and (status, code) != (outcome.OK, verification.PASS):
        return f"{status} with a latency and verification {code}"
    return "ok without a latency" if is_measured and not record["latency"] else ""


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
    contradiction=_contradiction,
    name_of=table.name_of,
    alike=_form,
)
