"""The rows of results/tuned.csv, and the results beside it that `tuned: auto` uses."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import yaml

from scripts.core import atomic
from scripts.features.variants import (
    kept_results,
    tuned_columns,
    tuned_matrix,
    tuned_page,
    tuned_rows,
)
from scripts.matrix.matrix import Matrix
from scripts.records.row_set import Content, RowSet
from scripts.run import outputs

HEAD = "# Made by `snakemake results/tuned.csv` (docs/tuning.md); used by targets with `tuned: auto`.\n"


def content(matrix: Matrix, args: argparse.Namespace) -> Content:
    if not tuned_matrix.part(matrix).targets:
        raise ValueError("the configuration selects no target to tune for; set tune.targets")
    rows, reports = tuned_rows.records(matrix)

    def write_results(records: list[tuned_rows.Record]) -> None:
        for result in tuned_rows.results(records):
            shown = yaml.safe_dump(msgspec.to_builtins(result), sort_keys=False, width=100)
            path = kept_results.path_of(result.model, result.target, args.out_results)
            atomic.write_text(path, HEAD + shown)
            report = reports.get((result.model, result.target))
            if (chosen := report and report.of(report.tuned)) and chosen.spec:
                # Specs of earlier results stay, since rows and recorded commands name them.
                spec = kept_results.spec_path(
                    result.model, result.target, chosen.spec, args.out_results
                )
                atomic.write_text(spec, chosen.spec)

    return Content(rows, lambda records: tuned_page.page(records, reports), write_results)


ROW_SET = RowSet(
    name="tuned",
    jsonl=outputs.files_of("tuned")[2],
    about="For every tuned model and target the rows `tuned` and `default`, and the rows of eager and inductor. The other columns are those\nof `latency.csv`. `tuned.jsonl` has all sections of `results.jsonl`, and the section `tuning`.",
    declared_in="scripts/features/variants/tuned_columns.py",
    fields=tuned_columns.FIELDS,
    columns=tuned_columns.COLUMNS,
    described=tuned_columns.OWN,
    content=content,
    screen=lambda records: "\n".join(tuned_page.said(list(records))),
    add_options=lambda parser: parser.add_argument(
        "--out-results", required=True, type=Path, help="folder of the results"
    ),
)
