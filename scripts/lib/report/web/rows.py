"""The rows of the page: the columns of latency.csv, and what filters and charts need in addition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scripts.lib.report import ratio, remedied, speedups
from scripts.lib.report.columns import COLUMNS
from scripts.lib.report.fields import NUMBER, TEXT, Field
from scripts.lib.report.results_file import cell_of
from scripts.lib.report.results_table import column_of
from scripts.lib.report.web.source import Record
from scripts.lib.supervision import outcome

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


def _known(record: Record) -> ratio.LogLatency | None:
    """Return the logarithm of the latency with its error; None if the row has no interval."""
    if not record["latency"]:
        return None
    row = speedups.row_of(record["latency"])
    return None if ratio.why_none(row) else ratio.log_latency(row)


OF_RECORDS = (
    Field("", TEXT, "Name of the cell.", column="cell", value=lambda r: str(cell_of(r))),
    Field("", TEXT, "Lowering path (frontend), or the name of the baseline.", column="path", value=_path),
    Field("", TEXT, "Target, or `baseline`.", column="on", value=_on),
    Field("", TEXT, "How the row ended.", column="ending", value=ending),
    Field("", TEXT, "Runtime as whose latency the row is used in speed-ups.", column="compared_as", value=speedups.runtime_of),
    *COLUMNS,
)  # fmt: skip
"""The columns of latency.csv, after some that it does not have."""

ENDS = (
    Field("", NUMBER, "Lower end of the 95 % interval of the latency.", unit="ms", column="latency_low_ms"),
    Field("", NUMBER, "Its upper end.", unit="ms", column="latency_high_ms"),
)  # fmt: skip
"""Columns that are computed together."""


def table(records: Sequence[Record]) -> dict[str, Any]:
    """Return the rows by column.

    `columns` describes the columns. `values` has the values of each, in the order of the records.
    `errors` has, for each row with an interval, the value, variance and degrees of freedom of the
    logarithm of its latency, and `alike` what two latencies must share to be compared.
    """
    known = [_known(record) for record in records]
    ends = [ratio.ends_ms(one) if one else (None, None) for one in known]
    values = {one.column: [_short(one.of(record)) for record in records] for one in OF_RECORDS}
    for place, one in enumerate(ENDS):
        values[one.column] = [_short(pair[place]) for pair in ends]
    return {
        "columns": [
            {"name": one.column, "kind": one.kind.words, "unit": one.unit, "about": one.description}
            for one in (*OF_RECORDS, *ENDS)
        ],
        "values": values,
        "errors": [_errors(*pair) for pair in zip(records, known, strict=True)],
        "alike": _alike(records),
        "endings": ENDINGS,
    }


def _errors(record: Record, known: ratio.LogLatency | None) -> list[float] | None:
    """Return value, variance and degrees of freedom; without an interval, only the value; None without a
    latency."""
    if not record["latency"] or remedied.by_other_path(record):
        return None
    if known is None:
        return [ratio.centre(speedups.row_of(record["latency"]))]
    return [known.value, known.variance, known.df]


def _alike(records: Sequence[Record]) -> list[int]:
    """Return a number per record, equal for those whose latencies can be compared."""
    numbers: dict[tuple, int] = {}
    return [
        numbers.setdefault(
            (speedups.comparable(record) if record["latency"] else ("", index)), len(numbers)
        )
        for index, record in enumerate(records)
    ]


def _short(value: Any) -> Any:
    """Return a number with seven significant digits, as in the CSV."""
    return float(f"{value:.7g}") if isinstance(value, float) else value
