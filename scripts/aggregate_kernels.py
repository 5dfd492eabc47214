"""Aggregate the results of all kernels: results/kernels.csv, kernels.md, kernels.jsonl and the plots."""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.lib.config.matrix import Matrix
from scripts.lib.core import atomic, exits
from scripts.lib.driver import outputs
from scripts.lib.report import fields, limits, writing
from scripts.lib.report.history import store
from scripts.lib.report.kernels import page, plots, rows
from scripts.lib.report.kernels.columns import COLUMNS, FIELDS
from scripts.lib.report.kernels.table import Kernels
from scripts.lib.report.results_file import cell_of


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.aggregate_kernels", description=__doc__
    )
    parser.add_argument("--matrix", required=True, type=Path, help="results/logs/matrix.json")
    parser.add_argument("--out-csv", required=True, type=Path)
    parser.add_argument("--out-jsonl", required=True, type=Path)
    parser.add_argument("--out-md", required=True, type=Path)
    parser.add_argument("--out-plots", required=True, type=Path, help="folder of the plots")
    parser.add_argument("--due", default="0", help="what asks for these files (driver/outputs.py)")
    args = parser.parse_args()
    matrix = Matrix.from_json(atomic.read_json(args.matrix)).kernels
    if matrix is None or not matrix.models:
        exits.fail(
            "the configuration selects no kernel; set kernels.select, or raise kernels.max_bytes"
        )
    try:
        measured = limits.read(matrix)
        made = rows.records(matrix, measured)
    except (rows.WrongTraffic, ValueError) as error:
        exits.fail(str(error))
    found = list(writing.checked(made, fields.schema(FIELDS), cell_of))
    try:
        for name in dict.fromkeys(one["kernel"]["name"] for one in found):
            of_kernel = [one for one in found if one["kernel"]["name"] == name]
            plots.write(name, of_kernel, args.out_plots)
        atomic.write_text(args.out_jsonl, "".join(writing.lines(found)))
        atomic.write_text(args.out_md, page.page(Kernels.of(found), measured))
        atomic.write_text(args.out_csv, "".join(writing.csv(found, COLUMNS)))
        outputs.record(args.due, [args.out_csv, args.out_md, args.out_jsonl])
        writing.condemn_damaged(found)
    except OSError as error:
        exits.fail(f"{error}; the next run makes {args.out_csv} again")
    store.keep(args.out_jsonl, "kernels")


if __name__ == "__main__":
    main()
