"""Aggregate tuned models: results/tuned.csv, tuned.md, tuned.jsonl, and the results that `tuned: auto` uses."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import yaml

from scripts.lib.config import tuning
from scripts.lib.config.matrix import Matrix
from scripts.lib.core import atomic, exits
from scripts.lib.driver import outputs
from scripts.lib.report import fields, writing
from scripts.lib.report.history import store
from scripts.lib.report.results_file import cell_of
from scripts.lib.report.tuning import page, rows
from scripts.lib.report.tuning.columns import COLUMNS, FIELDS

HEAD = "# Made by `snakemake results/tuned.csv` (docs/tuning.md); used by targets with `tuned: auto`.\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.aggregate_tuned", description=__doc__)
    parser.add_argument("--matrix", required=True, type=Path, help="results/logs/matrix.json")
    parser.add_argument("--out-csv", required=True, type=Path)
    parser.add_argument("--out-jsonl", required=True, type=Path)
    parser.add_argument("--out-md", required=True, type=Path)
    parser.add_argument("--out-results", required=True, type=Path, help="folder of the results")
    parser.add_argument("--due", default="0", help="what asks for these files (driver/outputs.py)")
    args = parser.parse_args()
    matrix = Matrix.from_json(atomic.read_json(args.matrix))
    if not matrix.tuning.targets:
        exits.fail("the configuration selects no target to tune for; set tune.targets")
    try:
        made, reports = rows.records(matrix)
    except ValueError as error:
        exits.fail(str(error))
    found = list(writing.checked(made, fields.schema(FIELDS), cell_of))
    try:
        for result in rows.results(found):
            shown = yaml.safe_dump(msgspec.to_builtins(result), sort_keys=False, width=100)
            path = tuning.path_of(result.model, result.target, args.out_results)
            atomic.write_text(path, HEAD + shown)
        atomic.write_text(args.out_jsonl, "".join(writing.lines(found)))
        atomic.write_text(args.out_md, page.page(found, reports))
        atomic.write_text(args.out_csv, "".join(writing.csv(found, COLUMNS)))
        outputs.record(args.due, [args.out_csv, args.out_md, args.out_jsonl])
        writing.condemn_damaged(found)
    except OSError as error:
        exits.fail(f"{error}; the next run makes {args.out_csv} again")
    store.keep(args.out_jsonl, "tuned")


if __name__ == "__main__":
    main()
