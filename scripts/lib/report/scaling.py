"""How latencies scale with the number of threads: the parallel efficiency of each model, by path.

The efficiency of n threads is latency(fewest) × fewest / (latency(n) × n), where `fewest` is the smallest number of
threads with a latency. It is 1 if twice the threads take half the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scripts.lib.config import threads
from scripts.lib.report import ratio
from scripts.lib.report.ratio import Interval
from scripts.lib.report.results_table import Column, Entry, Row, Table, Timing


@dataclass(frozen=True)
class Point:
    """A row of a line. `efficiency` is None without a latency; `interval` is its 95 % interval, None for the fewest
    threads and where one of the two latencies has none."""

    threads: int
    column: Column
    entry: Entry
    efficiency: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class Line:
    """A model in one test by one path, with a point for each number of threads, the fewest first. `column` is the path
    without a number."""

    row: Row
    column: Column
    points: tuple[Point, ...]


def lines(table: Table) -> list[Line]:
    """Return the lines with more than one number of threads, in the order of the rows and of their columns."""
    return [line for row in table.rows for line in _lines(row) if len(line.points) > 1]


def _lines(row: Row) -> Iterator[Line]:
    entries: dict[Column, dict[int, tuple[Column, Entry]]] = {}
    for column, entry in row.entries.items():
        number = entry.timing.threads if entry.timing else threads.of(column.label)
        if number:
            of = Column(threads.shared(column.name), threads.shared(column.target))
            entries.setdefault(of, {}).setdefault(number, (column, entry))
    for column, found in entries.items():
        yield Line(row, column, tuple(_points(found)))


def _points(found: Mapping[int, tuple[Column, Entry]]) -> Iterator[Point]:
    timings = {number: entry.timing for number, (_, entry) in found.items() if entry.timing}
    fewest = min(timings, default=0)
    for number, (column, entry) in sorted(found.items()):
        if entry.timing is None:
            yield Point(number, column, entry)
        elif number == fewest:
            yield Point(number, column, entry, 1.0)
        else:
            share = fewest / number
            yield Point(number, column, entry, *_efficiency(timings[fewest], entry.timing, share))


def _efficiency(base: Timing, timing: Timing, share: float) -> tuple[float, Interval | None]:
    """The efficiency and its interval. `share`: the threads of `base`, divided by those of `timing`."""
    value = share * math.exp(base.centre - timing.centre)
    if base.known is None or timing.known is None:
        return value, None
    found = ratio.ratio(base.known, timing.known)
    return value, Interval(value, share * found.low, share * found.high)
