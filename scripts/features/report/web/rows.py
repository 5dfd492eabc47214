"""The rows of the page: the columns of latency.csv, and what filters and charts need in addition."""

from __future__ import annotations

import math
from typing import Any

from scripts.features.report.web.source import Record, Source
from scripts.records import remedied
from scripts.records.columns import COLUMNS
from scripts.records.fields import TEXT, Field
from scripts.records.results_file import cell_of
from scripts.records.results_table import BASES, Row, column_of, over
from scripts.supervise import outcome

VERIFIED, OTHER_PATH, COMPILED, NO_DEVICE = "verified", "other path", "compiled", "no device"
WRONG, FAILED, SKIPPED = "wrong result", "failed", "skipped"
ENDINGS = {
    VERIFIED: "ran, and the results agree with eager's",
    OTHER_PATH: "failed as asked; a remedy compiled the program of another lowering path",
    COMPILED: "compiled, but there is no device to run it",
    NO_DEVICE: "this machine has no such device",
    WRONG: "ran, and the results are wrong",
    FAILED: "a stage failed",
    SKIPPED: "not run, because of a skip list or an earlier failure",
}
"""How a row can end, with the meaning."""


def ending(record: Record) -> str:
    """Return how a row ended, for its own lowering path: a key of ENDINGS."""
    ended = record["outcome"]
    if remedied.by_other_path(record):
        return OTHER_PATH
    if record["latency"]:
        return VERIFIED
    if ended["status"] == outcome.UNAVAILABLE:
        return COMPILED if record.get("compile") else NO_DEVICE
    if ended["status"] == outcome.SKIPPED:
        return SKIPPED
    return WRONG if ended["reason"] == "wrong-result" else FAILED


def _path(record: Record) -> str:
    """Return the lowering path, or the name of the baseline."""
    return column_of(record).name


def _on(record: Record) -> str:
    """Return the target, or `baseline`."""
    return column_of(record).target or "baseline"


OF_RECORDS = (
    Field("", TEXT, "Name of the cell.", column="cell", value=lambda r: str(cell_of(r))),
    Field("", TEXT, "Lowering path (frontend), or the name of the baseline.", column="path", value=_path),
    Field("", TEXT, "Target, or `baseline`.", column="on", value=_on),
    Field("", TEXT, "How the row ended.", column="ending", value=ending),
    *COLUMNS,
)  # fmt: skip
"""The columns of latency.csv, after some that it does not have."""


def table(source: Source) -> dict[str, Any]:
    """Return the rows by column.

    `columns` describes the columns. `values` has the values of each, in the order of the records. `over` has, for each row
    and each of results_table.BASES, the logarithm of the speed-up, its scale and its degrees of freedom (ratios.Difference);
    only the logarithm without an interval; None without a speed-up.
    """
    found = {(row.model, row.test): row for row in source.table.rows}
    rows = [found[one["model"]["name"], one["experiment"]["test"]] for one in source.records]
    return {
        "columns": [
            {"name": one.column, "kind": one.kind.words, "unit": one.unit, "about": one.description}
            for one in OF_RECORDS
        ],
        "values": {one.column: [_short(one.of(record)) for record in source.records] for one in OF_RECORDS},
        "over": [_over(*pair) for pair in zip(source.records, rows, strict=True)],
        "endings": ENDINGS,
    }  # fmt: skip


def _over(record: Record, row: Row) -> list[list[float] | None]:
    found: list[list[float] | None] = []
    for base in BASES:
        point, known = over(row, column_of(record), base) or (None, None)
        if known:
            found.append([known.value, known.scale, known.df])
        else:
            found.append([math.log(point)] if point else None)
    return found


def _short(value: Any) -> Any:
    """Return a number with seven significant digits, as in the CSV."""
    return float(f"{value:.7g}") if isinstance(value, float) else value
