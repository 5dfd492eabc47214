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
from scripts.records.results_table import ModelRows, Table
from scripts.records.row import Column, Row, Timing
from scripts.timing import ratios
from scripts.timing.ratios import Interval

Numbered = dict[int, Row]
"""The rows of a line by their number of threads."""


@dataclass(frozen=True)
class Point:
    """A row of a line. `efficiency` is None without a latency; `interval` is its 99 % interval, None for the fewest
    threads and where one of the two latencies has none."""

    threads: int
    row: Row
    efficiency: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class Line:
    """A model in one test by one path, on one CPU, with a point for each number of threads, the fewest first. `column` is the
    path without a number. `device`: the CPU, if there are lines of several."""

    of: ModelRows
    column: Column
    points: tuple[Point, ...]
    device: str = ""

    @property
    def path(self) -> str:
        """The name of the line in legends."""
        return f"{wording.path(self.column)}{self.device and f' ({self.device})'}"


def lines(table: Table) -> list[Line]:
    """Return the lines with more than one number of threads, in the order of the models and of their columns."""
    return [line for rows in table.rows for line in _lines(rows) if len(line.points) > 1]


def _lines(of_model: ModelRows) -> Iterator[Line]:
    """Yield the lines of a model. Each has the failures of its path, which may have been on any CPU."""
    timed: dict[Column, dict[str, Numbered]] = defaultdict(lambda: defaultdict(dict))
    failed: dict[Column, Numbered] = defaultdict(dict)
    for column, row in of_model.entries.items():
        shared = Column(threads.shared(column.name), threads.shared(column.target))
        if at := row.conditions:
            cpu = " of ".join(filter(None, (at.device_name, at.machine)))
            if at.threads:
                timed[shared][cpu][at.threads] = row
        elif number := threads.of(column.label):
            failed[shared][number] = row
    for column in dict.fromkeys((*timed, *failed)):
        several = len(timed[column]) > 1
        for cpu, rows in (timed[column] or {"": {}}).items():
            points = tuple(_points(failed[column] | rows))
            yield Line(of_model, column, points, cpu if several else "")


def _points(rows: Numbered) -> Iterator[Point]:
    timings = {number: row.timing for number, row in rows.items() if row.timing}
    fewest = min(timings, default=0)
    for number, row in sorted(rows.items()):
        if row.timing is None:
            yield Point(number, row)
        elif number == fewest:
            yield Point(number, row, 1.0)
        else:
            yield Point(number, row, *_efficiency(timings[fewest], row.timing, fewest / number))


def _efficiency(base: Timing, timing: Timing, share: float) -> tuple[float, Interval | None]:
    """The efficiency and its interval. `share`: the threads of `base`, divided by those of `timing`."""
    known = [
        ratios.of_logs(list(map(math.log, timed.latency["values_ms"]))) for timed in (base, timing)
    ]
    if known[0] is None or known[1] is None:
        return share * base.ms / timing.ms, None
    interval = ratios.combined([(1, known[0]), (-1, known[1])]).interval()
    ends = Interval(*(share * end for end in (interval.ratio, interval.low, interval.high)))
    return ends.ratio, ends
