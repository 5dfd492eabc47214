"""Series of a value of a cell over the entries of a history.

An aggregate has all rows of a results folder, also those that its run did not measure. A measurement is therefore a point of its
series once: in the first entry that has it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from scripts.features.compare.history.store import Entry, Kept, toolchain_of, versions_of
from scripts.records.columns import COLUMNS
from scripts.records.fields import INTEGER, NUMBER, Field
from scripts.records.provenance import pairs
from scripts.records.results_file import cell_of
from scripts.timing import ratios
from scripts.timing.ratios import Difference

Record = Mapping[str, Any]
LATENCY = "latency_ms"
OF_MODEL = " of the model"
"""End of the names of a model's digests in what a point was made with."""


class NoSuchValue(ValueError):
    """A column that has no series. Says which ones have."""


@dataclass(frozen=True, eq=False)
class Point:
    """A cell in an entry of the history.

    `at`: when it was measured, or else when the entry was made, in seconds since the epoch. `value`: None if the record has none.
    `known`: the logarithm of the value with its error, if it is of a latency with an interval. `ms`: the latency. `made_with`: what
    may explain a change, by name.
    """

    entry: Entry
    at: float
    status: str
    reason: str
    detail: str
    value: float | None
    known: Difference | None
    ms: float | None
    made_with: Mapping[str, str]

    @property
    def ended(self) -> str:
        """How the cell ended, as text."""
        return f"{self.status} ({self.reason})" if self.reason else self.status


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

    @property
    def valued(self) -> list[Point]:
        """The points that have a value."""
        return [one for one in self.points if one.value is not None]


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
        for record in one.records():
            cell = str(cell_of(record))
            if not selects(cell):
                continue
            point = _point(one.entry, record)
            cpu = one.entry.machine.cpu
            outcomes.setdefault((cell, cpu), Series(cell, (cpu,))).points.append(point)
            measurement = _measurement(cell, record)
            if measurement in seen:
                continue
            seen.add(measurement)
            conditions = _conditions(one.entry, record)
            for of in columns:
                if (number := of.of(record)) is None:
                    continue
                valued = replace(point, value=float(number))
                anchor = ""
                if of.column == LATENCY:
                    anchor, valued = _latency(valued, record["latency"])
                known, key = values[of.column], (cell, *conditions, anchor)
                if key not in known:
                    follows = begun.get((of.column, *key[:-1]), "")
                    known[key] = Series(cell, conditions, anchor, follows)
                    begun[of.column, *key[:-1]] = anchor
                known[key].points.append(valued)
    return list(outcomes.values()), {
        column: list(found.values()) for column, found in values.items()
    }


def _point(entry: Entry, record: Record) -> Point:
    """The point of a record, without a value."""
    ended = record["outcome"]
    at = record["latency"]["started"] if record["latency"] else entry.made
    made = made_with(entry, record)
    return Point(
        entry, at, ended["status"], ended["reason"], ended["detail"], None, None, None, made
    )


def _latency(point: Point, latency: Mapping[str, Any]) -> tuple[str, Point]:
    """The anchor of a latency ("" if it is known in milliseconds), and its point."""
    values, anchor = latency["values_ms"], latency["anchor_ms"]
    if not latency["anchor"] or anchor == values:
        known = ratios.of_logs([math.log(ms) for ms in values])
        return "", replace(point, value=latency["ms"], known=known, ms=latency["ms"])
    ratio = math.exp(ratios.log_mean(anchor) - ratios.log_mean(values))
    known = ratios.paired(anchor, values)
    return latency["anchor"], replace(point, value=ratio, known=known, ms=latency["ms"])


def _measurement(cell: str, record: Record) -> str:
    """Return a text that is equal for two records of the same measurement."""
    latency = record["latency"]
    if latency:
        return json.dumps([cell, latency["values_ms"], latency["started"]])
    return json.dumps([cell, record["outcome"], record["compile"], record["versions"]])


def _conditions(entry: Entry, record: Record) -> tuple[str, ...]:
    """Return what values of a cell must share to be compared: the device, and what the model is."""
    experiment, run, model = record["experiment"], record["run"], record["model"]
    threads = run["threads"] and f"{run['threads']} threads"
    computed = "" if experiment["precision"] == "none" else experiment["precision"]
    return (
        run["device_name"] or entry.machine.cpu,
        threads or "",
        f"{experiment['dtype']}, batch size {experiment['batch_size']}",
        computed,
        pairs(model["options"]),
        pairs(dict(sorted((experiment.get("optimizer") or {}).items()))),
    )


def made_with(entry: Entry, record: Record) -> dict[str, str]:
    """Return what may explain that a value of a cell changes, by name, as text."""
    experiment, export = record["experiment"], record["export"] or {}
    remedy = record.get("remedy") or {}
    digests = record["reference"].get("digests") or {}
    found = {
        **versions_of(record),
        "toolchain": toolchain_of(record),
        **{f"{name}{OF_MODEL}": one for name, one in digests.items()},
        "opt level": experiment.get("opt_level"),
        "flags": " ".join(experiment.get("flags") or ()),
        "rewrites": " ".join(export.get("rewrites") or ()),
        "remedy": remedy.get("name"),
        "code of the stage": record["outcome"].get("fingerprint"),
        "commit": entry.commit,
    }
    return {name: text for name, text in found.items() if text}


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


def changed_endings(points: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Return the pairs of neighbours that ended in different ways: the status or the reason differs."""
    return [(a, b) for a, b in pairwise(points) if (a.status, a.reason) != (b.status, b.reason)]
