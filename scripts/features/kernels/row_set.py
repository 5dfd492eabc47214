"""The rows of results/kernels.csv."""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.features.kernels import kernel_plots, page, rows
from scripts.matrix.matrix import Matrix
from scripts.records import speedups
from scripts.records.row_set import Content, RowSet
from scripts.run import outputs


def content(matrix: Matrix, args: argparse.Namespace) -> Content:
    part = matrix.parts.get("kernels")
    if part is None or not part.models:
        raise ValueError(
            "the configuration selects no kernel; set kernels.select, or raise kernels.max_bytes"
        )
    limits = speedups.read_limits(part.devices())

    def write_plots(records: list[rows.Record]) -> None:
        for name in dict.fromkeys(record["kernel"]["name"] for record in records):
            of_kernel = [record for record in records if record["kernel"]["name"] == name]
            kernel_plots.write(name, of_kernel, args.out_plots)

    kernel_records = rows.records(part, limits)
    return Content(kernel_records, lambda records: page.page(records, limits), write_plots)


ROW_SET = RowSet(
    name="kernels",
    jsonl=outputs.files_of("kernels")[2],
    about="One row for every kernel at every shape, on every lowering path and target, and under every baseline.\n`kernels.jsonl` has all sections of `results.jsonl`, and the section `kernel`.",
    declared_in="scripts/features/kernels/rows.py",
    fields=rows.FIELDS,
    columns=rows.COLUMNS,
    described=(*rows.COLUMNS, rows.OWN[0]),
    content=content,
    screen=lambda records: page.Screen(page.Kernels.of_records(records)),
    add_options=lambda parser: parser.add_argument(
        "--out-plots", required=True, type=Path, help="folder of the plots"
    ),
)
