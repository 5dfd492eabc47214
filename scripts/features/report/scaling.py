"""How latencies scale with the number of threads: the parallel efficiency of each model, by path.

The efficiency of n threads is latency(fewest) × fewest / (latency(n) × n), where `fewest` is the smallest number of
threads with a latency. It is 1 if twice the threads take half the time. Rows of different numbers of threads are timed one
group after the other, so its interval is that of two independent latencies: it does not contain what changes between groups.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from scripts.matrix import threads
from scripts.records import wording
from scripts.records.results_table import Column, Entry, Row, Table, Timing
from scripts.timing import ratios
from scripts.timing.ratios import Interval

Where = tuple[str | None, str | None]
"""Timing.where."""
Points = dict[int, tuple[Column, Entry]]
"""The rows of a line by their number of threads."""


@dataclass(frozen=True)
class Point:
    """A row of a line. `efficiency` is None without a latency; `interval` is its 99 % interval, None for the fewest
    threads and where one of the two latencies has none."""

    threads: int
    column: Column
    entry: Entry
    efficiency: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class Line:
    """A model in one test by one path, on one CPU, with a point for each number of threads, the fewest first. `column` is the
    path without a number. `device`: the CPU, if there are lines of several."""

    row: Row
    column: Column
    points: tuple[Point, ...]
    device: str = ""

    @property
    def path(self) -> str:
        """The name of the line in legends."""
        return f"{wording.path(self.column)}{self.device and f' ({self.device})'}"


def lines(table: Table) -> list[Line]:
    """Return the lines with more than one number of threads, in the order of the rows and of their columns."""
    return [line for row in table.rows for line in _lines(row) if len(line.points) > 1]


def _lines(row: Row) -> Iterator[Line]:
    """Yield the lines of a row. Each has the failures of its path, which may have been on any CPU."""
    timed: dict[Column, dict[Where, Points]] = defaultdict(lambda: defaultdict(dict))
    failed: dict[Column, Points] = defaultdict(dict)
    for column, entry in row.entries.items():
        number = entry.timing.threads if entry.timing else threads.of(column.label)
        if number:
            of = Column(threads.shared(column.name), threads.shared(column.target))
            found = timed[of][entry.timing.where] if entry.timing else failed[of]
            found[number] = (column, entry)
    for column in dict.fromkeys((*timed, *failed)):
        several = len(timed[column]) > 1
        for where, found in (timed[column] or {(None, None): {}}).items():
            name = " of ".join(filter(None, where)) if several else ""
            yield Line(row, column, tuple(_points(failed[column] | found)), name)


def _points(found: Points) -> Iterator[Point]:
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
    known = [
        ratios.of_logs(list(map(math.log, one.latency["values_ms"]))) for one in (base, timing)
    ]
    if known[0] is None or known[1] is None:
        return share * base.ms / timing.ms, None
    found = ratios.combined([(1, known[0]), (-1, known[1])]).interval()
    ends = Interval(*(share * end for end in (found.ratio, found.low, found.high)))
    return ends.ratio, ends
