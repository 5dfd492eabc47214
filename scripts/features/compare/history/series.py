"""Series of a value of a cell over the entries of a history, and what each of them shows.

An aggregate has all rows of a results folder, also those that its run did not measure. A measurement is therefore a
point of its series once: in the first entry that has it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import msgspec

from scripts.features.compare.history import changes
from scripts.features.compare.history.changes import Drift
from scripts.features.compare.history.store import Entry, Kept
from scripts.features.compare.pairs import (
    Ending,
    Record,
    changed,
    options_of,
    toolchain_of,
    versions_of,
)
from scripts.records.columns import COLUMNS
from scripts.records.fields import INTEGER, NUMBER, Field
from scripts.records.results_file import cell_of
from scripts.records.results_table import options_as_text
from scripts.timing import ratios
from scripts.timing.ratios import Difference, Interval

LATENCY = "latency_ms"
OF_MODEL = " of the model"
"""End of the names of a model's digests in what a point was made with."""

SAME = Interval(1.0, 1.0, 1.0)


class NoSuchValue(ValueError):
    """A column that has no series. Says which ones have."""


@dataclass(frozen=True, eq=False)
class Point:
    """A cell in an entry of the history.

    `at`: when it was measured, or else when the entry was made, in seconds since the epoch. `made_with`: what may
    explain a change, by name. `value`: None if the record has none. `known`: the logarithm of the value with its
    error, if it is of a latency with an interval. `ms`: the latency.
    """

    entry: Entry
    at: float
    status: str
    ending: Ending
    made_with: Mapping[str, str]
    value: float | None = None
    known: Difference | None = None
    ms: float | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        """The 99 % interval of the value, if it has one."""
        at = self.known.interval() if self.known else None
        return (at.low, at.high) if at else None


@dataclass(frozen=True)
class Step:
    """Two neighbours of a series between which something changes: how the cell ends, or the level of the values by
    `ratio`. `index`: of the second one."""

    cell: str
    before: Point
    after: Point
    index: int
    ratio: Interval = SAME

    @property
    def differs(self) -> list[str]:
        """What differs in how the two points were made, such as `IREE 3.12.0 → 3.13.0`."""
        return [
            f"{name} {old or '–'} → {new or '–'}"
            for name, old, new in changed(self.before.made_with, self.after.made_with)
            # Records of older versions do not have these digests.
            if not name.endswith(OF_MODEL) or (old and new)
        ]


@dataclass
class Series:
    """The points of a cell that can be compared, oldest first, and what they show.

    `conditions`: what they share, as text. `unit`: of the values. `anchor`: the values are how many times faster than
    this row they are; "" if they are the values of a column. `follows`: the anchor of an earlier series of the same
    cell, after which this one starts anew.
    """

    cell: str
    conditions: tuple[str, ...]
    unit: str = ""
    anchor: str = ""
    follows: str = ""
    points: list[Point] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    drift: Drift | None = None

    @property
    def title(self) -> str:
        """The cell and the conditions."""
        than = f"times as fast as {self.anchor}" if self.anchor else ""
        return ", ".join(filter(None, (self.cell, *self.conditions, than)))

    @property
    def values(self) -> list[float]:
        """The values, of which a series of a column has all."""
        return [point.value or 0.0 for point in self.points]

    def _step(self, index: int, ratio: Interval = SAME) -> Step:
        return Step(self.cell, self.points[index - 1], self.points[index], index, ratio)

    def find_endings(self) -> None:
        """Find the changes in how the cell ends."""
        endings = [point.ending for point in self.points]
        self.steps = [
            self._step(index)
            for index in range(1, len(endings))
            if endings[index - 1].change(endings[index])
        ]

    def find_levels(self, varies: bool) -> None:
        """Find the changes of the level and the drift of the values; `varies`: whether they have noise."""
        variances = [point.known.scale**2 if point.known else None for point in self.points]
        levels = changes.find(self.values, variances) if varies else changes.exact(self.values)
        self.steps = [self._step(change.index, change.ratio) for change in levels.changes]
        self.drift = levels.drift

    def to_json(self) -> dict[str, Any]:
        """The series with its changes and its drift as JSON."""
        points = [
            {
                "run": point.entry.id,
                "at": point.at,
                "value": point.value,
                "interval": point.ends,
                "ms": point.ms,
                "status": point.status,
                "made_with": point.made_with,
            }
            for point in self.points
        ]
        steps = [
            {
                "run": step.after.entry.id,
                "before": step.before.entry.id,
                "index": step.index,
                "ratio": _ends(step.ratio),
                "differs": step.differs,
            }
            for step in self.steps
        ]
        return {
            "cell": self.cell,
            "conditions": [condition for condition in self.conditions if condition],
            "unit": self.unit,
            "anchor": self.anchor,
            "follows": self.follows,
            "points": points,
            "changes": steps,
            "drift": self.drift and {"ratio": _ends(self.drift.ratio), "step": self.drift.step},
        }


def value_field(column: str) -> Field:
    """Return the declaration of a column whose values make a series. Raises NoSuchValue."""
    known = {
        column.column: column
        for column in COLUMNS
        if column.column and column.kind in (NUMBER, INTEGER)
    }
    if column not in known:
        raise NoSuchValue(f"{column!r} is not a column of numbers; there are {', '.join(known)}")
    return known[column]


def read(
    kept: Iterable[Kept], columns: Sequence[Field], selects: Callable[[str], bool]
) -> tuple[list[Series], dict[str, list[Series]]]:
    """Return two kinds of series of the selected cells with what they show: the outcomes of each cell, and values,
    by column.

    The outcomes of a cell are one series only if the machines of the runs have the same CPU: a device that only one of
    two machines has, or a compilation that needs more memory than the other has, is no change. Values are of one
    series only if they were measured on the same device with as many threads, with the same options of the model. A
    latency is the ratio to the anchor of its group, because the machine has another speed in each run: where
    that is another one (with another PyTorch), another series begins. A row without an anchor, and the anchor itself,
    have milliseconds. Raises Damaged if an entry cannot be read.
    """
    outcomes: dict[tuple[str, str], Series] = {}
    values: dict[str, Found] = {column.column: {} for column in columns}
    seen: set[tuple[str, bytes]] = set()
    for entry, record in ((each.entry, record) for each in kept for record in each.records()):
        cell, latency, cpu = str(cell_of(record)), record["latency"], entry.machine.cpu
        if not selects(cell):
            continue
        ended = record["outcome"]
        at = latency["started"] if latency else entry.made
        point = Point(
            entry, at, ended["status"], Ending.of_record(record), _made_with(entry, record)
        )
        outcomes.setdefault((cell, cpu), Series(cell, (cpu,))).points.append(point)
        # What is equal for two records of the same measurement.
        timed = latency and [latency["values_ms"], latency["started"]]
        sources = timed or [ended, record["compile"], record["versions"]]
        measurement = cell, msgspec.json.encode(sources)
        if measurement not in seen:
            seen.add(measurement)
            for column in columns:
                _add(values[column.column], column, point, record)
    for series in outcomes.values():
        series.find_endings()
    by_column = {
        name: list(chain.from_iterable(by_series.values())) for name, by_series in values.items()
    }
    for column in columns:
        for series in by_column[column.column]:
            series.find_levels(column.varies)
    return [*outcomes.values()], by_column


Found = dict[tuple[str, tuple[str, ...]], list[Series]]
"""The series of each cell and its conditions, one after another anchor."""


def _add(series_by_key: Found, column: Field, point: Point, record: Record) -> None:
    """Add the value of a record to its series, or to a new one."""
    if (number := column.value_in(record)) is None:
        return
    anchor, valued = "", replace(point, value=float(number))
    if column.column == LATENCY:
        anchor, valued = _latency(point, record["latency"])
    cell, conditions = str(cell_of(record)), _conditions(point.entry, record)
    known = series_by_key.setdefault((cell, conditions), [])
    series = next((other for other in known if other.anchor == anchor), None)
    if series is None:
        unit, follows = "×" if anchor else column.unit, known[-1].anchor if known else ""
        series = Series(cell, conditions, unit, anchor, follows)
        known.append(series)
    series.points.append(valued)


def _latency(point: Point, latency: Mapping[str, Any]) -> tuple[str, Point]:
    """The anchor of a latency ("" if it is known in milliseconds), and its point."""
    values, anchor, ms = latency["values_ms"], latency["anchor_ms"], latency["ms"]
    if not latency["anchor"] or anchor == values:
        known = ratios.of_logs([math.log(value) for value in values])
        return "", replace(point, value=ms, known=known, ms=ms)
    ratio = math.exp(ratios.log_mean(anchor) - ratios.log_mean(values))
    known = ratios.paired(anchor, values)
    return latency["anchor"], replace(point, value=ratio, known=known, ms=ms)


def _conditions(entry: Entry, record: Record) -> tuple[str, ...]:
    """What values of a cell must share to be compared: the device, and what the model is."""
    experiment, run, model = record["experiment"], record["run"], record["model"]
    return (
        run["device_name"] or entry.machine.cpu,
        f"{run['threads']} threads" if run["threads"] else "",
        f"{experiment['dtype']}, batch size {experiment['batch_size']}",
        "" if experiment["precision"] == "none" else experiment["precision"],
        options_as_text(model["options"]),
        options_as_text(dict(sorted((experiment.get("optimizer") or {}).items()))),
    )


def _made_with(entry: Entry, record: Record) -> dict[str, str]:
    """What may explain that a value of a cell changes, by name, as text."""
    digests = record["reference"].get("digests") or {}
    made_with = {
        **versions_of(record),
        "toolchain": toolchain_of(record),
        **{f"{name}{OF_MODEL}": digest for name, digest in digests.items()},
        **options_of(record),
        "remedy": (record.get("remedy") or {}).get("name"),
        "code of the stage": record["outcome"].get("fingerprint"),
        "commit": entry.commit,
    }
    return {name: text for name, text in made_with.items() if text}


def when(at: float) -> str:
    """Return a time, given in seconds since the epoch, in UTC."""
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M}"


def _ends(ratio: Interval) -> list[float | None]:
    """A ratio with its ends; null where the value before was 0."""
    return [end if end < math.inf else None for end in (ratio.ratio, ratio.low, ratio.high)]
