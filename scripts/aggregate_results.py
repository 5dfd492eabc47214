"""Aggregate every cell's outcome and measurement: results/latency.csv and results.jsonl."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jsonschema
import pandas as pd

from scripts.lib.config.matrix import Matrix
from scripts.lib.core import atomic, exits
from scripts.lib.report import record
from scripts.lib.report.results_file import cell_of

SCHEMA = Path(__file__).parents[1] / "workflow" / "schemas" / "record.schema.json"

# Whole numbers that may be missing: pandas would print them as 2.0 otherwise.
INTEGERS = ("batch_size", "threads", "repetitions", "vmfb_bytes", "dispatch_count")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.aggregate_results", description=__doc__
    )
    parser.add_argument("--matrix", required=True, type=Path, help="results/logs/matrix.json")
    parser.add_argument("--out-csv", required=True, type=Path)
    parser.add_argument("--out-jsonl", required=True, type=Path)
    args = parser.parse_args()
    found = record.records(Matrix.from_json(atomic.read_json(args.matrix)))
    check(found)
    atomic.write_text(args.out_jsonl, "".join(json.dumps(r, allow_nan=False) + "\n" for r in found))
    atomic.write_text(args.out_csv, to_csv(found))


def check(found: list[dict]) -> None:
    """Hold every record to the schema; a record that breaks it is a bug here, not a result."""
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    for one in found:
        for problem in validator.iter_errors(one):
            where = ".".join(str(part) for part in problem.absolute_path)
            exits.fail(f"record {cell_of(one)}: {where}: {problem.message}")


def to_csv(found: list[dict]) -> str:
    """The flat rows, seven significant digits: more than any of the numbers holds."""
    frame = pd.DataFrame([record.row(one) for one in found], columns=list(record.COLUMNS))
    frame = frame.astype(dict.fromkeys(INTEGERS, "Int64"))
    return frame.to_csv(index=False, float_format="%.7g", lineterminator="\n")


if __name__ == "__main__":
    main()
