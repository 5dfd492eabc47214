"""Series of a value of a cell over the entries of a history, and what each of them shows.

An aggregate has all rows of a results folder, also those that its run did not measure. A measurement is therefore a point of its
series once: in the first entry that has it.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from scripts.features.compare.history import changes
from scripts.features.compare.history.changes import Drift
from scripts.features.compare.history.store import Entry, Kept, toolchain_of, versions_of
from scripts.records.columns import COLUMNS
from scripts.records.fields import INTEGER, NUMBER, Field
from scripts.records.provenance import pairs
from scripts.records.results_file import cell_of
from scripts.timing import ratios
from scripts.timing.ratios import Difference, Interval

Record = Mapping[str, Any]
LATENCY = "latency_ms"
OF_MODEL = " of the model"
"""End of the names of a model's digests in what a point was made with."""


class NoSuchValue(ValueError):
    """A column that has no series. Says which ones have."""


@dataclass(frozen=True, eq=False)
class Point:
    """A cell in an entry of the history.

    `at`: when it was measured, or else when the entry was made, in seconds since the epoch. `made_with`: what may explain a change,
    by name. `value`: None if the record has none. `known`: the logarithm of the value with its error, if it is of a latency with an
    interval. `ms`: the latency.
    """

    entry: Entry
    at: float
    status: str
    reason: str
    detail: str
    made_with: Mapping[str, str]
    value: float | None = None
    known: Difference | None = None
    ms: float | None = None

    @property
    def ended(self) -> str:
        """How the cell ended, as text."""
        return f"{self.status} ({self.reason})" if self.reason else self.status

    @property
    def ends(self) -> tuple[float, float] | None:
        """The 99 % interval of the value, if it has one."""
        at = self.known.interval() if self.known else None
        return (at.low, at.high) if at else None


@dataclass
class Series:
    """The points of a cell that can be compared, oldest first. `conditions`: what they share, as text. `anchor`: the values are how
    many times faster than this row they are; "" if they are the values of a column. `follows`: the anchor of an earlier series of the
    same cell, after which this one starts anew."""

    cell: str
    conditions: tuple[str, ...]
    anchor: str = ""
    follows: str = ""
    points: list[Point] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The cell and the conditions."""
        than = f"times as fast as {self.anchor}" if self.anchor else ""
        return ", ".join(filter(None, (self.cell, *self.conditions, than)))


def value_field(column: str) -> Field:
    """Return the declaration of a column whose values make a series. Raises NoSuchValue."""
    known = {one.column: one for one in COLUMNS if one.column and one.kind in (NUMBER, INTEGER)}
    if column not in known:
        raise NoSuchValue(f"{column!r} is not a column of numbers; there are {', '.join(known)}")
    return known[column]


def read(
    kept: Iterable[Kept], columns: Sequence[Field], selects: Callable[[str], bool]
) -> tuple[list[Series], dict[str, list[Series]]]:
    """Return two kinds of series of the selected cells: how each cell ended, and the series of values, by column.

    How a cell ended is of one series only if the machines of the runs have the same CPU: a device that only one of two machines
    has, or a compilation that needs more memory than the other has, is no change. Values are of one series only if they were measured on the same device with as many threads, with the same options of the
    model. A latency is known by its ratio to the anchor of its group, because the machine has another speed in each run: where that is
    another one (with another PyTorch), another series begins. A row without an anchor, and the anchor itself, have milliseconds. Raises Damaged if an entry cannot be read.
    """
    outcomes: dict[tuple[str, str], Series] = {}
    values: dict[str, dict[tuple[str, ...], Series]] = {of.column: {} for of in columns}
    seen: set[str] = set()
    begun: dict[tuple[str, ...], str] = {}  # the anchor of the last series of a cell that began
    for one in kept:
        cpu = one.entry.machine.cpu
        for record in one.records():
            cell, latency = str(cell_of(record)), record["latency"]
            if not selects(cell):
                continue
            ended = record["outcome"]
            point = Point(
                one.entry,
                latency["started"] if latency else one.entry.made,
                *(ended["status"], ended["reason"], ended["detail"]),
                _made_with(one.entry, record),
            )
            outcomes.setdefault((cell, cpu), Series(cell, (cpu,))).points.append(point)
            # A text that is equal for two records of the same measurement.
            made = [latency["values_ms"], latency["started"]] if latency else [ended, record["compile"], record["versions"]]  # fmt: skip
            measurement = json.dumps([cell, *made])
            if measurement in seen:
                continue
            seen.add(measurement)
            conditions = _conditions(one.entry, record)
            for column in columns:
                if (number := column.of(record)) is None:
                    continue
                anchor, valued = "", replace(point, value=float(number))
                if column.column == LATENCY:
                    anchor, valued = _latency(point, latency)
                known, key = values[column.column], (cell, *conditions, anchor)
                if key not in known:
                    follows = begun.get((column.column, *key[:-1]), "")
                    known[key] = Series(cell, conditions, anchor, follows)
                    begun[column.column, *key[:-1]] = anchor
                known[key].points.append(valued)
    return [*outcomes.values()], {name: [*of.values()] for name, of in values.items()}


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
        pairs(model["options"]),
        pairs(dict(sorted((experiment.get("optimizer") or {}).items()))),
    )


def _made_with(entry: Entry, record: Record) -> dict[str, str]:
    """What may explain that a value of a cell changes, by name, as text."""
    experiment, export = record["experiment"], record["export"] or {}
    digests = record["reference"].get("digests") or {}
    found = {
        **versions_of(record),
        "toolchain": toolchain_of(record),
        **{f"{name}{OF_MODEL}": one for name, one in digests.items()},
        "opt level": experiment.get("opt_level"),
        "flags": " ".join(experiment.get("flags") or ()),
        "rewrites": " ".join(export.get("rewrites") or ()),
        "remedy": (record.get("remedy") or {}).get("name"),
        "code of the stage": record["outcome"].get("fingerprint"),
        "commit": entry.commit,
    }
    return {name: text for name, text in found.items() if text}


@dataclass(frozen=True)
class Changed:
    """Two neighbours between which the level of a series changes. `index`: of the second one. `ratio`: of the levels."""

    before: Point
    after: Point
    index: int
    ratio: Interval

    @property
    def differs(self) -> list[str]:
        """What differs between their runs."""
        return differences(self.before, self.after)


@dataclass(frozen=True)
class Shown:
    """A series of values and what it shows. `unit`: of its values."""

    series: Series
    unit: str
    changed: tuple[Changed, ...]
    drift: Drift | None

    @property
    def has_finding(self) -> bool:
        """Whether there is a change or a drift."""
        return bool(self.changed or self.drift)


@dataclass(frozen=True)
class Ended:
    """Two neighbours between which it changes how a cell ends: the status or the reason. `differs`: between their runs."""

    cell: str
    before: Point
    after: Point
    differs: list[str]


def shown(series: Series, of: Field) -> Shown:
    """Return what a series of values shows."""
    points = series.points
    values = [point.value or 0.0 for point in points]
    variances = [point.known.scale**2 if point.known else None for point in points]
    found = changes.find(values, variances) if of.varies else changes.exact(values)
    changed = (Changed(points[one.index - 1], points[one.index], one.index, one.ratio) for one in found.changes)  # fmt: skip
    return Shown(series, "×" if series.anchor else of.unit, tuple(changed), found.drift)


def endings(outcomes: Iterable[Series]) -> list[Ended]:
    """Return each change in how a cell ended."""
    return [
        Ended(series.cell, before, after, differences(before, after))
        for series in outcomes
        for before, after in pairwise(series.points)
        if (before.status, before.reason) != (after.status, after.reason)
    ]


def differences(before: Point, after: Point) -> list[str]:
    """Return what differs in how two points were made, such as `IREE 3.12.0 → 3.13.0`."""
    old, new = before.made_with, after.made_with
    return [
        f"{name} {old.get(name, '–')} → {new.get(name, '–')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
        # Records of older versions do not have these digests.
        and (not name.endswith(OF_MODEL) or (name in old and name in new))
    ]


def when(at: float) -> str:
    """Return a time, given in seconds since the epoch, in UTC."""
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M}"


def to_json(of: Shown) -> dict[str, Any]:
    """Return a series with its changes and its drift as JSON."""
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
        for point in of.series.points
    ]
    changed = [
        {
            "run": one.after.entry.id,
            "before": one.before.entry.id,
            "index": one.index,
            "ratio": _ratio(one.ratio),
            "differs": one.differs,
        }
        for one in of.changed
    ]
    return {
        "cell": of.series.cell,
        "conditions": [one for one in of.series.conditions if one],
        "unit": of.unit,
        "anchor": of.series.anchor,
        "follows": of.series.follows,
        "points": points,
        "changes": changed,
        "drift": of.drift and {"ratio": _ratio(of.drift.ratio), "step": of.drift.step},
    }


def _ratio(of: Interval) -> list[float | None]:
    """A ratio with its ends; null where the value before was 0."""
    return [one if one < float("inf") else None for one in (of.ratio, of.low, of.high)]
