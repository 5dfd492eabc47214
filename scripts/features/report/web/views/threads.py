"""Threads: latency and parallel efficiency by the number of threads, per model and path."""

from __future__ import annotations

from typing import Any

from scripts.features.report import scaling
from scripts.features.report.scaling import Line, Point
from scripts.features.report.web.source import Source, View
from scripts.records import wording
from scripts.records.results_table import column_of

Place = tuple[str, str, str]
"""Model, test and label of the column of a row."""


def select(source: Source) -> dict[str, Any] | None:
    """Return a line per model, test and path with a point per number of threads; None if all rows have one number."""
    found = scaling.lines(source.table)
    if not found:
        return None
    places = {
        (one["model"]["name"], one["experiment"]["test"], column_of(one).label): index
        for index, one in enumerate(source.records)
    }
    return {"lines": [_line(line, places) for line in found]}


def _line(line: Line, places: dict[Place, int]) -> dict[str, Any]:
    of = line.row.model, line.row.test
    return {
        "model": line.row.label,
        "path": line.path,
        "points": [_point(one, places[*of, one.column.label]) for one in line.points],
    }


def _point(point: Point, index: int) -> dict[str, Any]:
    timing = point.entry.timing
    low_ms, high_ms = (timing and timing.ends_ms) or (None, None)
    interval = point.interval
    return {
        "index": index,
        "threads": point.threads,
        "reason": "" if timing else wording.failure(point.entry),
        "latency_ms": timing.ms if timing else None,
        "latency_low_ms": low_ms,
        "latency_high_ms": high_ms,
        "efficiency": point.efficiency,
        "efficiency_low": interval.low if interval else None,
        "efficiency_high": interval.high if interval else None,
    }


VIEW = View(
    "threads",
    "Threads",
    select,
    "All rows were measured on one number of threads. Measure on several, then make this page again: "
    "snakemake --cores 8 results/report.html --config measure='{threads: [1, 2, 4]}'",
)
