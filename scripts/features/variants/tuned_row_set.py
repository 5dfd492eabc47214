"""The rows of results/tuned.csv, and the results beside it that `tuned: auto` uses."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from scripts.core import atomic
from scripts.features.variants import tuned_matrix, tuned_page, tuned_rows
from scripts.matrix.rows import Matrix
from scripts.records import columns
from scripts.records.columns import FROM_0, FROM_1, POSITIVE
from scripts.records.fields import FLAG, INTEGER, NUMBER, OBJECT, TEXT, Field
from scripts.records.results_file import Form
from scripts.records.row_set import Content, RowSet
from scripts.run import kept_results, outputs

OWN = (
    Field("tuning", OBJECT, "What tuning has tried and found; null for a baseline.", nullable=True),
    Field("tuning.candidate", TEXT, "Candidate of the row: lowering path, opt level, flag set and preprocessing; null if none has passed.", column="candidate", nullable=True),
    Field("tuning.frontend", TEXT, "Frontend of its program.", column="frontend_used", nullable=True),
    Field("tuning.candidates", INTEGER, "Candidates, among them those that do not apply to the program.", unit="count", column="candidates", nullable=True, checks=FROM_1),
    Field("tuning.compiled", INTEGER, "Candidates that compiled, also to the module of another one.", unit="count", column="candidates_compiled", nullable=True, varies=True, checks=FROM_0),
    Field("tuning.verified", INTEGER, "Different modules that were verified and timed.", unit="count", column="modules_verified", nullable=True, varies=True, checks=FROM_0),
    Field("tuning.failed", INTEGER, "Candidates that failed to compile, crashed, hung or computed wrong results.", unit="count", column="candidates_failed", nullable=True, varies=True, checks=FROM_0),
    Field("tuning.seconds", NUMBER, "Time that tuning took; compilations are divided by how many ran at a time.", unit="s", column="tuning_s", nullable=True, varies=True, checks=FROM_0),
    Field("tuning.speedup_vs_default", NUMBER, "Latency of the row `default` / latency of the row `tuned`.", unit="ratio", column="speedup_vs_default", nullable=True, varies=True, checks=POSITIVE),
    Field("tuning.speedup_vs_default_low", NUMBER, "Lower end of its 99 % interval.", unit="ratio", column="speedup_vs_default_low", nullable=True, varies=True, checks=POSITIVE),
    Field("tuning.speedup_vs_default_high", NUMBER, "Its upper end.", unit="ratio", column="speedup_vs_default_high", nullable=True, varies=True, checks=POSITIVE),
    Field("tuning.kept", FLAG, "Whether the gain is beyond its interval, so that `tuned: auto` uses the result.", column="kept", nullable=True, varies=True),
    Field("tuning.why", TEXT, "Why it is kept or not.", column="kept_why", nullable=True, varies=True),
)  # fmt: skip
"""The section `tuning` of a line of results/tuned.jsonl."""

_LEFT_OUT = ("frontend_used", "remedy", "first_error", "first_error_detail", "tried", "tuned")
"""Columns of latency.csv that mean nothing here, or that this table has a separate column for."""

COLUMNS = (
    *(column for column in columns.COLUMNS if column.column not in _LEFT_OUT),
    *(column for column in OWN if column.column),
)
"""The columns of results/tuned.csv, in order."""


HEAD = (
    "# Made by the target results/tuned.csv (docs/tuning.md); used by targets with `tuned: auto`.\n"
)


def content(matrix: Matrix, folder: Path) -> Content:
    if not tuned_matrix.part(matrix).targets:
        raise ValueError("the configuration selects no target to tune for; set tune.targets")
    rows, reports = tuned_rows.records(matrix)

    def write_results(records: list[tuned_rows.Record]) -> None:
        for result in tuned_rows.results(records):
            shown = yaml.safe_dump(msgspec.to_builtins(result), sort_keys=False, width=100)
            path = kept_results.path_of(
                result.model, result.target, folder / kept_results.FOLDER.name
            )
            atomic.write_text(path, HEAD + shown)

    return Content(rows, lambda records: tuned_page.page(records, reports), write_results)


ROW_SET = RowSet(
    name="tuned",
    jsonl=outputs.files_of("tuned")[2],
    about="For every tuned model and target the rows `tuned` and `default`, and the rows of eager and inductor. The other columns are those of `latency.csv`. `tuned.jsonl` has all sections of `results.jsonl`, and the section `tuning`.",
    declared_in="scripts/features/variants/tuned_row_set.py",
    form=Form("results/tuned.csv", (*columns.FIELDS, *OWN)),
    columns=COLUMNS,
    described=OWN,
    content=content,
    screen=lambda records: "\n".join(tuned_page.said(list(records))),
)
