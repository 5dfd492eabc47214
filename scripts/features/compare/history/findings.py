"""What each series of a history shows, with the runs in which it happened and what changed between them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scripts.features.compare.history import changes
from scripts.features.compare.history.changes import Change, Found
from scripts.features.compare.history.series import Point, Series, changed_endings, differences
from scripts.records.fields import Field
from scripts.timing.ratios import Interval


@dataclass(frozen=True)
class Changed:
    """A change of the level of a series: the last point before it, the first one after it, and what differs between their runs."""

    before: Point
    after: Point
    change: Change
    differs: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """A series and what it shows. `unit`: of its values."""

    series: Series
    unit: str
    changed: tuple[Changed, ...]
    found: Found

    @property
    def has_finding(self) -> bool:
        """Whether there is a change or a drift."""
        return bool(self.changed or self.found.drift)


@dataclass(frozen=True)
class Ended:
    """A change in how a cell ends: the last point before it, the first one after it, and what differs between their runs."""

    cell: str
    before: Point
    after: Point
    differs: tuple[str, ...]


def of_series(series: Series, of: Field) -> Shown:
    """Return what a series of values shows."""
    points = series.valued
    values = [one.value for one in points if one.value is not None]
    found = (
        changes.find(values, [one.known.scale**2 if one.known else None for one in points])
        if of.varies
        else changes.exact(values)
    )
    changed = [_changed(points, one) for one in found.changes]
    return Shown(series, "×" if series.anchor else of.unit, tuple(changed), found)


def _changed(points: list[Point], change: Change) -> Changed:
    before, after = points[change.index - 1], points[change.index]
    return Changed(before, after, change, tuple(differences(before, after)))


def endings(outcomes: Iterable[Series]) -> list[Ended]:
    """Return each change in how a cell ended."""
    return [
        Ended(series.cell, before, after, tuple(differences(before, after)))
        for series in outcomes
        for before, after in changed_endings(series.points)
    ]


def ends_of(point: Point) -> tuple[float, float] | None:
    """Return the 99 % interval of the value of a point, if it has one."""
    at = point.known.interval() if point.known else None
    return (at.low, at.high) if at else None


def when(at: float) -> str:
    """Return a time, given in seconds since the epoch, in UTC."""
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M}"


def to_json(shown: Iterable[Shown], ended: Iterable[Ended]) -> dict[str, Any]:
    """Return series, changes and drifts as JSON."""
    return {
        "series": [_series(one) for one in shown],
        "outcomes": [
            {
                "cell": one.cell,
                "before": {"run": one.before.entry.id, "ended": one.before.ended},
                "after": {"run": one.after.entry.id, "ended": one.after.ended, "detail": one.after.detail},
                "differs": list(one.differs),
            }
            for one in ended
        ],
    }  # fmt: skip


def _series(of: Shown) -> dict[str, Any]:
    drift = of.found.drift
    return {
        "cell": of.series.cell,
        "conditions": [one for one in of.series.conditions if one],
        "unit": of.unit,
        "anchor": of.series.anchor,
        "follows": of.series.follows,
        "points": [
            {
                "run": one.entry.id,
                "at": one.at,
                "value": one.value,
                "interval": ends_of(one),
                "ms": one.ms,
                "status": one.status,
                "made_with": one.made_with,
            }
            for one in of.series.valued
        ],
        "changes": [
            {
                "run": one.after.entry.id,
                "before": one.before.entry.id,
                "index": one.change.index,
                "ratio": _ratio(one.change.ratio),
                "differs": list(one.differs),
            }
            for one in of.changed
        ],
        "drift": drift and {"ratio": _ratio(drift.ratio), "step": drift.step},
    }


def _ratio(of: Interval) -> list[float | None]:
    """A ratio with its ends; null where the value before was 0."""
    return [one if one < float("inf") else None for one in (of.ratio, of.low, of.high)]
