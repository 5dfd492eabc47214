"""The rows of the page, with what filters and charts need, and the details that it shows when a row is opened."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from scripts.features.report.web.page_source import Record, Run, Source
from scripts.records.clusters import command
from scripts.records.columns import COLUMNS
from scripts.records.fields import TEXT, Field
from scripts.records.results_table import BASES, ModelRows, over
from scripts.records.row import ENDINGS, Column, Row
from scripts.supervise import outcome

BLOCK = 200
"""Rows per compressed block of details: the page decompresses one block when a row of it is opened."""
OK_CHARS, FAILED_CHARS = 1_500, 5_000
"""How much of the end of a log is kept, in characters."""

_OF_ROWS = (
    (Field("", TEXT, "Name of the cell.", column="cell"), lambda row: str(row.cell)),
    (Field("", TEXT, "Lowering path (frontend), or the name of the baseline.", column="path"), lambda row: row.column.name),
    (Field("", TEXT, "Target, or `baseline`.", column="on"), lambda row: row.column.target or "baseline"),
    (Field("", TEXT, "How the row ended.", column="ending"), lambda row: row.ending),
)  # fmt: skip
"""Columns that latency.csv does not have, with the value of a row."""
_SECTIONS = (
    *("model", "experiment", "reference", "outcome", "verification", "run", "export", "compile"),
    *("remedy", "versions"),
)
_OF_LATENCY = ("values_ms", "anchor_ms", "anchor", "group", "calls", "started", "foreign", "steal")


def table(
    source: Source,
    names: Collection[str] = (),
    further: Sequence[tuple[Field, Sequence[Any]]] = (),
    digits: int = 7,
) -> dict[str, Any]:
    """Return the rows by column.

    `columns` describes the columns. `values` has the values of each, in the order of the records. `over` has, for each row
    and each of results_table.BASES, the logarithm of the speed-up, its scale and its degrees of freedom (ratios.Difference);
    only the logarithm without an interval; None without a speed-up. `names`: only these columns of latency.csv, and nothing in `over`. `further`: more
    columns with their values. `digits`: significant ones of numbers.
    """
    lines = {(line.model, line.test): line for line in source.table.rows}
    of_csv = [column for column in COLUMNS if not names or column.column in names]
    return {
        "columns": [
            {
                "name": column.column,
                "kind": column.kind.words,
                "unit": column.unit,
                "about": column.description,
            }
            for column in (*(own for own, _ in _OF_ROWS), *(own for own, _ in further), *of_csv)
        ],
        "values": {
            **{own.column: [value(row) for row in source.rows] for own, value in _OF_ROWS},
            **{own.column: values for own, values in further},
            **{
                column.column: [short(column.of(record), digits) for record in source.records]
                for column in of_csv
            },
        },
        "over": []
        if names
        else [_over(lines[row.model, row.test], row.column) for row in source.rows],
        "endings": ENDINGS,
    }


def _over(line: ModelRows, column: Column) -> list[list[float] | None]:
    estimates: list[list[float] | None] = []
    for base in BASES:
        point, known = over(line, column, base) or (None, None)
        if known:
            estimates.append([known.value, known.scale, known.df])
        else:
            estimates.append([math.log(point)] if point else None)
    return estimates


def short(value: Any, digits: int = 7) -> Any:
    """Return a number with so many significant digits; with seven, as in the CSV."""
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def details(source: Source) -> list[list[dict[str, Any]]]:
    """Return the details of all rows in blocks, in the order of the records."""
    each = zip(source.records, source.rows, source.stages, strict=True)
    blocks = [_details(source.results, *place) for place in each]
    return [blocks[at : at + BLOCK] for at in range(0, len(blocks), BLOCK)]


def _details(results: Path, record: Record, row: Row, runs: Sequence[Run]) -> dict[str, Any]:
    latency, ended = record["latency"], record["outcome"]
    most = OK_CHARS if ended["status"] == outcome.OK else FAILED_CHARS
    return {
        **{key: record.get(key) for key in _SECTIONS},
        "latency": latency and {key: latency[key] for key in _OF_LATENCY},
        "cold": record["runs"][0] if record["runs"] else None,
        # Without anything to make good, the stage of remedies ran and did nothing.
        "stages": [stage for stage in runs if stage["stage"] != "remedy" or record.get("remedy")],
        "minimal": command(record, row.failed) if row.failed else "",
        "log_end": end_of(results, ended.get("log"), most),
    }


def end_of(results: Path, log: str | None, most: int) -> str:
    """Return at most `most` characters of the end of a log below `results`, as whole lines; "" if it cannot be read, or is elsewhere: the
    records of others could name any file of this machine."""
    path = (results.parent / (log or "")).resolve()
    if not (path.is_relative_to(results.resolve()) and path.is_file()):
        return ""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(0, size - 4 * most))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    if len(text) <= most:
        return text
    end = text[-most:]
    return end[end.find("\n") + 1 :]
