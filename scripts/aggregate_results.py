"""Aggregate the results of all cells: results/latency.csv, latency.md and results.jsonl."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.lib.config.matrix import Matrix
from scripts.lib.core import atomic, exits
from scripts.lib.driver import outputs
from scripts.lib.report import fields, imported, latency_page, record, writing
from scripts.lib.report.columns import COLUMNS, FIELDS
from scripts.lib.report.history import store
from scripts.lib.report.results_file import cell_of
from scripts.lib.report.results_table import Table


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.aggregate_results", description=__doc__
    )
    parser.add_argument("--matrix", required=True, type=Path, help="results/logs/matrix.json")
    parser.add_argument("--out-csv", required=True, type=Path)
    parser.add_argument("--out-jsonl", required=True, type=Path)
    parser.add_argument("--out-md", required=True, type=Path)
    parser.add_argument("--due", default="0", help="what asks for these files (driver/outputs.py)")
    args = parser.parse_args()
    try:
        matrix = Matrix.from_json(atomic.read_json(args.matrix))
        made = record.records(matrix, further=imported.rows())
    except ValueError as error:
        exits.fail(str(error))
    found = check(made)
    try:
        atomic.write_text(args.out_jsonl, "".join(writing.lines(found)))
        atomic.write_text(args.out_md, latency_page.page(Table.of(found)))
        atomic.write_text(args.out_csv, to_csv(found))
        outputs.record(args.due, [args.out_csv, args.out_md, args.out_jsonl])
        writing.condemn_damaged(found)
    except OSError as error:
        exits.fail(f"{error}; the next run makes {args.out_csv} again")
    store.keep(args.out_jsonl, "latency")


def check(found: list[dict]) -> list[Mapping[str, Any]]:
    """Return the records if all follow the schema; else end with an error."""
    return list(writing.checked(found, fields.schema(FIELDS), cell_of))


def to_csv(found: Iterable[Mapping[str, Any]]) -> str:
    """The rows as CSV."""
    return "".join(writing.csv(found, COLUMNS))


if __name__ == "__main__":
    main()
