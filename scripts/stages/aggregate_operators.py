"""Aggregate the results of all operator problems: results/operators.csv, operators.md and operators/operators.jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands
from scripts.features import registry
from scripts.features.operators.problems.problem import read_problems
from scripts.features.operators.report import page, problem_record, records_file
from scripts.features.operators.report.columns import COLUMNS, FIELDS
from scripts.features.operators.report.table import Table
from scripts.features.operators.settings import part
from scripts.matrix.matrix import Matrix
from scripts.records import aggregates, fields, writing
from scripts.run import outputs


def main() -> None:
    registry.load()
    parser = aggregates.parser("aggregate_operators", __doc__)
    parser.add_argument("--source", type=Path, help="results/operators/source.json")
    args = parser.parse_args()
    matrix = aggregates.matrix(args)
    schema = fields.schema(FIELDS, "operator_record")
    found = writing.checked(_records(matrix), schema, records_file.name_of, _kind)
    with aggregates.files(args.out_csv):
        atomic.write_parts(args.out_jsonl, writing.lines(found))
        atomic.write_parts(args.out_csv, writing.csv(records_file.data(args.out_jsonl), COLUMNS))
        source = atomic.read_json(args.source) if args.source else {}
        table = Table(records_file.data(args.out_jsonl))
        atomic.write_text(args.out_md, page.page(table, source))
        outputs.record(args.due, [args.out_csv, args.out_md])
        writing.condemn_damaged(records_file.data(args.out_jsonl))


def _kind(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what records of the same form have in common."""
    ended = record["outcome"]
    return records_file.column(record).label, ended["status"], ended["stage"], ended["reason"]


def _records(matrix: Matrix, root: Path = Path()) -> Iterator[Mapping[str, Any]]:
    """Yield the records of all problems, by batch."""
    for batch in part(matrix).batch_names():
        listed = root / f"results/operators/batches/{batch}.jsonl"
        yield from problem_record.of_batch(root, matrix, batch, read_problems(listed))


if __name__ == "__main__":
    commands.run(main)
