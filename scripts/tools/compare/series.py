"""Series of a value of a cell over the entries of a history, what each of them shows, and the tables of that.

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

from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import Difference, Interval
from scripts.results import wording
from scripts.results.columns import COLUMNS, INTEGER, NUMBER, Field
from scripts.results.page_sections import Section
from scripts.results.results_file import cell_of
from scripts.results.results_table import options_as_text
from scripts.tools.compare import changes
from scripts.tools.compare.changes import LEAST, Drift
from scripts.tools.compare.pairs import (
    Ending,
    Record,
    changed,
    options_of,
    toolchain_of,
    versions_of,
)
from scripts.tools.compare.store import ALL_PASSES, Compilation, Entry, Kept

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
    return [end if end < math.inf else None for end in (ratio.ratio, ratio.low, ratio.high)]


# Tables, for the terminal and the report page.

BAR = 24
"""Characters of the longest bar."""
EIGHTHS = " ▏▎▍▌▋▊▉"
LARGE = 0.05
"""The share of the compiler's seconds from which a pass is shown, and the runs that are."""
COMPILATIONS = 6
DIFFERS = "what differs from the run before"


def table_of_runs(entries: Sequence[Entry]) -> Section:
    """A table of the entries."""
    head = ("run", "when (UTC)", "commit", "machine", "versions", "rows", "ok")
    rows = []
    for entry in entries:
        machine = f"{entry.machine.name}: {entry.machine.cpu}, {entry.machine.cores} cores"
        numbers = (str(entry.rows), str(entry.statuses.get("ok", 0)))
        rows.append((entry.short, when(entry.at), entry.commit, machine, entry.versions, *numbers))
    return Section("Runs", head, rows, (5, 6))


def table_of_changes(what: str, column: str, of_cells: Sequence[Series]) -> Section:
    """Changes of the level, then drifts. `what`: the values in words."""
    rows = []
    for each in of_cells:
        for step in each.steps:
            values = " → ".join(_value(point, each, column) for point in (step.before, step.after))
            run, ratio = _run_name(step.after.entry), _interval(step.ratio)
            rows.append((each.cell, "change", run, values, ratio, ", ".join(step.differs)))
    for each in of_cells:
        if drift := each.drift:
            values = " → ".join(_value(each.points[end], each, column) for end in (0, -1))
            over, per_run = f"over {len(each.points)} runs", f"× {drift.step:.4f} per run"
            rows.append((each.cell, "slow drift", over, values, _interval(drift.ratio), per_run))
    head = ("cell", "what", "run", "before → after", "ratio (99 % interval)", DIFFERS)
    short = sum(len(each.points) < LEAST for each in of_cells)
    few = f"; {short} of them have fewer than the {LEAST} runs that a change needs" if short else ""
    note = "" if rows else f"No change was found in {len(of_cells)} series{few}."
    return Section(f"Changes of {what}", head if rows else (), rows, note=note)


def table_of_endings(steps: Sequence[Step]) -> Section:
    """The changes in how cells end."""
    rows = []
    for step in steps:
        ends = f"{step.before.ending.words} → {step.after.ending.words}"
        rows.append((step.cell, _run_name(step.after.entry), ends, ", ".join(step.differs)))
    return Section("Cells that end in another way", ("cell", "run", "ends", DIFFERS), rows)


def table_of_points(of_cell: Series, column: str) -> Section:
    """The points of a series, with bars."""
    unit = f" ({of_cell.unit})" if of_cell.unit and not column.endswith(f"_{of_cell.unit}") else ""
    values = ("times as fast", column) if of_cell.anchor else (f"{column}{unit}",)
    changed = {step.after for step in of_cell.steps}
    most, rows = max(of_cell.values, default=0.0), []
    for point, value in zip(of_cell.points, of_cell.values, strict=True):
        eighths = round(8 * BAR * value / most) if most > 0 else 0
        bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
        ends = point.ends if column == LATENCY else None
        form = "{:.4g}".format if of_cell.anchor else wording.milliseconds
        interval = f" ({' to '.join(map(form, ends))})" if ends else ""
        ms = [wording.milliseconds(point.ms) if point.ms else "–"] if of_cell.anchor else []
        mark = " ← change" if point in changed else ""
        entry = (point.entry.short, when(point.at), point.entry.commit)
        rows.append((*entry, f"{_value(point, of_cell, column)}{interval}", *ms, bar + mark))
    anew = [f"Starts anew with another anchor, after {of_cell.follows}"] if of_cell.follows else []
    head = ("run", "when (UTC)", "commit", *values, "")
    return Section(of_cell.title, head, rows, range(3, 3 + len(values)), lines=anew)


def table_of_passes(cell: str, compilations: Sequence[tuple[Entry, Compilation]]) -> Section:
    """The passes of a cell that take a large part of the compiler's seconds in one of the newest runs."""
    newest = compilations[-COMPILATIONS:]
    names_of_runs = [f"IREE {kept.iree or '?'}\nrun {entry.short}" for entry, kept in newest]
    head = (f"{cell}: s of iree-compile on one thread", *names_of_runs)
    shown = [compilation.seconds for _, compilation in newest]
    names = dict.fromkeys(name for seconds in shown for name in seconds)
    large = [n for n in names if any(s.get(n, 0.0) >= LARGE * s[ALL_PASSES] for s in shown)]
    others = (2 * s[ALL_PASSES] - sum(s.get(name, 0.0) for name in large) for s in shown)
    rows = [(name, *(f"{seconds.get(name, 0.0):.2f}" for seconds in shown)) for name in large]
    rows.append(("(others)", *(f"{seconds:.2f}" for seconds in others)))
    return Section("", head, rows, range(1, len(head)))


def _run_name(entry: Entry) -> str:
    return f"{when(entry.at)} ({entry.short})"


def _value(point: Point, of_cell: Series, column: str) -> str:
    if point.value is None:
        return "–"
    if column != LATENCY:
        return f"{point.value:,.10g}"
    return f"{point.value:.4g}" if of_cell.anchor else wording.milliseconds(point.value)


def _interval(ratio: Interval) -> str:
    if ratio.low == ratio.high:
        return f"× {ratio.ratio:.4g}"
    return f"× {ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
