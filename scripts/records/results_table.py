"""The results table as data: one row per model, one column per baseline and lowering path.

screen.py prints it on a terminal, and latency_page.py writes it to results/latency.md. Both take
all numbers, marks and reasons from here.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scripts.matrix import training
from scripts.matrix.cell import Kind
from scripts.records import remedied, speedups
from scripts.records.provenance import Provenance
from scripts.records.results_file import cell_of
from scripts.records.speedups import Latency
from scripts.supervise import outcome
from scripts.timing import ratios
from scripts.timing.ratios import Difference, Interval

Record = Mapping[str, Any]
Place = tuple[bool, str]
"""(whether it is a target, name of the target or baseline)."""


@dataclass(frozen=True)
class Column:
    """A baseline (`target` is ""), or a lowering path and its target."""

    name: str
    target: str = ""

    @property
    def label(self) -> str:
        """Such as `torchmlir-torch/llvm-cpu`, or the name of a baseline."""
        return f"{self.name}/{self.target}" if self.target else self.name

    @property
    def place(self) -> Place:
        """The target or the baseline. If its device is missing, none of its rows can run."""
        return bool(self.target), self.target or self.name


@dataclass(frozen=True)
class Timing:
    """A measured latency. `latency`: the section of its record.

    `alike`: test, dtype, precision, batch size, device and threads; two latencies are compared only if these are equal.
    `threads`: of a CPU. `where`: the name of the device, and the machine of an imported row.
    """

    latency: Latency
    runtime: str
    alike: tuple
    threads: int | None
    where: tuple[str | None, str | None] = (None, None)

    @property
    def ms(self) -> float:
        ms: float = self.latency["ms"]
        return ms

    @property
    def ends_ms(self) -> tuple[float, float] | None:
        """The 99 % interval in ms; None if there is none."""
        low, high = self.latency["low_ms"], self.latency["high_ms"]
        return None if low is None else (low, high)

    @property
    def doubt(self) -> str:
        """Why its ratios have no interval or a wide one; "" if nothing was seen."""
        doubt: str = self.latency["doubt"]
        return doubt


@dataclass(frozen=True)
class Entry:
    """One cell of the table: a timing, or the reason why there is none. `by_other_path`: a remedy has
    compiled the program of another lowering path, which counts as a failure of this one."""

    status: str
    reason: str
    detail: str
    timing: Timing | None
    by_other_path: bool = False


@dataclass
class Row:
    """A model in one test. `size`: its size as far as it is known, such as `block, 2 layers`.
    `fastest`: see `_fastest`."""

    model: str
    test: str
    size: str
    entries: dict[Column, Entry] = field(default_factory=dict)
    fastest: frozenset[Column] = frozenset()

    @property
    def label(self) -> str:
        return self.model if self.test == "eval" else f"{self.model} ({self.test})"


@dataclass(frozen=True)
class Absent:
    """Targets or baselines that did not run because their device is missing.

    `rows`: rows of each of them. `without_device`: rows that lack only the device (those of a
    target have compiled). `detail`: what is missing. `reasons`: (reason, count) of the rows that
    failed. `by_other_path`: how many of these a remedy has compiled by another lowering path.
    """

    places: tuple[str, ...]
    is_target: bool
    rows: int
    without_device: int
    detail: str
    reasons: tuple[tuple[str, int], ...]
    by_other_path: int = 0


@dataclass(frozen=True)
class Speedup:
    """The geometric mean of `count` speed-ups; `interval` is None if one of them has none."""

    mean: float
    interval: Interval | None
    count: int


@dataclass(frozen=True)
class Mean:
    """The mean speed-ups of a column, one per base (`over`).

    `verified`: rows of the column that were measured and verified. `rows`: all rows of the column.
    """

    column: Column
    test: str
    verified: int
    rows: int
    over: tuple[Speedup | None, ...]


BASES: tuple[tuple[str, ...], ...] = (("eager",), speedups.BASES)
"""The bases of the geometric means: eager, and the faster of eager and inductor."""


@dataclass(frozen=True)
class Table:
    """The whole table. `columns` are the columns with results, `absent` summarizes the others."""

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    absent: tuple[Absent, ...]
    means: tuple[Mean, ...]
    provenance: Provenance

    @classmethod
    def of(cls, records: Iterable[Record]) -> Table:
        """Return the table of some records, which are read once and not kept."""
        rows: dict[tuple[str, str], Row] = {}
        provenance = Provenance()
        for record in records:
            provenance.add(record)
            model, test = record["model"]["name"], record["experiment"]["test"]
            row = rows.setdefault((model, test), Row(model, test, size_of(record)))
            row.entries[column_of(record)] = _entry(record)
        found = tuple(rows.values())
        for row in found:
            row.fastest = _fastest(row)
        every = in_order(found)
        absent = [place for place in _places(every) if _is_absent(found, place)]
        columns = tuple(column for column in every if column.place not in absent)
        return cls(
            found,
            columns,
            tuple(_merged(_absent(found, place) for place in absent)),
            tuple(_means(found, columns)),
            provenance,
        )

    @property
    def bases(self) -> list[int]:
        """Indices into BASES of the bases that at least one column has a mean over."""
        return [n for n in range(len(BASES)) if any(mean.over[n] for mean in self.means)]

    @property
    def has_intervals(self) -> bool:
        return any(e.timing and e.timing.ends_ms for row in self.rows for e in row.entries.values())

    @property
    def doubts(self) -> dict[tuple[str, str], list[Column]]:
        """The columns with a doubt, by the row's label and the doubt."""
        found: dict[tuple[str, str], list[Column]] = {}
        for row in self.rows:
            for column, entry in row.entries.items():
                if entry.timing and entry.timing.doubt:
                    found.setdefault((row.label, entry.timing.doubt), []).append(column)
        return found


def size_of(record: Record) -> str:
    """Return the size of a model, as far as its options and its configuration give it."""
    reference = record["reference"]
    resolved = reference.get("resolved") or record["model"]["options"]
    layers = reference.get("layers")
    parts = [str(resolved["size"])] if "size" in resolved else []
    return ", ".join(parts + ([f"{layers} layers"] if layers else []))


def column_of(record: Record) -> Column:
    """Return the column of a record. The tests of a lowering path have one column, and rows of their own."""
    cell = cell_of(record)
    _, first, *rest = cell.name.split("/")
    if cell.kind is Kind.IREE:
        return Column(training.without_test(first), "/".join(rest))
    return Column(first)


def _entry(record: Record) -> Entry:
    ended = remedied.of_path(record)
    other = remedied.by_other_path(record)
    latency = None if other else record["latency"]
    reason = ended["reason"] or ended["status"]
    timing = _timing(record, latency) if latency else None
    return Entry(ended["status"], reason, ended["detail"], timing, other)


def _timing(record: Record, latency: Latency) -> Timing:
    _, *alike = speedups.comparable(record)
    return Timing(
        latency,
        speedups.runtime_of(record),
        tuple(alike),
        record["run"]["threads"],
        (record["run"]["device_name"], speedups.machine_of(record)),
    )


def _fastest(row: Row) -> frozenset[Column]:
    """Return the columns of the fastest latencies among those that can be compared.

    These are the lowest latency, and all others for which the interval of the ratio to the lowest contains 1. There is
    no fastest latency if no other one has such an interval.
    """
    groups: dict[tuple, dict[Column, Timing]] = {}
    for column, entry in row.entries.items():
        if entry.timing:
            groups.setdefault(entry.timing.alike, {})[column] = entry.timing
    return frozenset(column for group in groups.values() for column in _fastest_of(group))


def _fastest_of(group: Mapping[Column, Timing]) -> Iterator[Column]:
    best = min(group, key=lambda column: group[column].ms)
    slower = {
        column: found.interval().low
        for column, timing in group.items()
        if column != best and (found := speedups.difference(timing.latency, group[best].latency))
    }
    if slower:
        yield best
    yield from (column for column, low in slower.items() if low <= 1)


def in_order(rows: Sequence[Row]) -> list[Column]:
    """Return the columns: baselines, then the lowering paths of each target, in record order."""
    every = list(dict.fromkeys(column for row in rows for column in row.entries))
    targets = list(dict.fromkeys(column.target for column in every if column.target))
    names = list(dict.fromkeys(column.name for column in every))

    def place(column: Column) -> tuple[int, int]:
        target = targets.index(column.target) if column.target else -1
        return target, names.index(column.name)

    return sorted(every, key=place)


def _places(columns: Iterable[Column]) -> list[Place]:
    return list(dict.fromkeys(column.place for column in columns))


def _entries(rows: Iterable[Row], place: Place) -> Iterator[Entry]:
    for row in rows:
        for column, entry in row.entries.items():
            if column.place == place:
                yield entry


def _is_absent(rows: Sequence[Row], place: Place) -> bool:
    """Return whether a target or baseline has no timing because its device is missing."""
    entries = list(_entries(rows, place))
    return not any(e.timing for e in entries) and any(
        e.status == outcome.UNAVAILABLE for e in entries
    )


def _absent(rows: Sequence[Row], place: Place) -> Absent:
    is_target, name = place
    entries = list(_entries(rows, place))
    missing = [e for e in entries if e.status == outcome.UNAVAILABLE]
    others = Counter(e.reason for e in entries if e.status != outcome.UNAVAILABLE)
    [(detail, _)] = Counter(e.detail for e in missing).most_common(1)
    return Absent(
        (name,),
        is_target,
        len(entries),
        len(missing),
        detail,
        tuple(others.most_common()),
        sum(e.by_other_path for e in entries),
    )


def _merged(found: Iterable[Absent]) -> list[Absent]:
    """Merge the items that differ only in their names."""
    names: dict[Absent, tuple[str, ...]] = {}
    for one in found:
        alike = replace(one, places=())
        names[alike] = names.get(alike, ()) + one.places
    return [replace(one, places=places) for one, places in names.items()]


def _means(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[Mean]:
    """Yield the means of every column that has a measured row of a runtime other than eager."""
    tests = dict.fromkeys(row.test for row in rows)
    for test in tests:
        of_test = [row for row in rows if row.test == test]
        for column in columns:
            entries = [row.entries[column] for row in of_test if column in row.entries]
            timings = [entry.timing for entry in entries if entry.timing]
            if not timings or all(t.runtime == "eager" for t in timings):
                continue
            over = tuple(_speedup(of_test, column, base) for base in BASES)
            if any(over):
                yield Mean(column, test, len(timings), len(entries), over)


def _speedup(rows: Sequence[Row], column: Column, base: Sequence[str]) -> Speedup | None:
    """Return the geometric mean of the speed-ups of a column over the fastest runtime of `base`.

    It is computed from the rows in which both have a latency and the two can be compared. Returns
    None if there is no such row, or if the column is itself a runtime of `base`.
    """
    pairs = [found for row in rows if (found := over(row, column, base))]
    if not pairs:
        return None
    mean = statistics.geometric_mean(value for value, _ in pairs)
    known = [one for _, one in pairs if one]
    interval = ratios.mean(known).interval() if len(known) == len(pairs) else None
    return Speedup(mean, interval, len(pairs))


def over(row: Row, column: Column, base: Sequence[str]) -> tuple[float, Difference | None] | None:
    """Return the speed-up of a latency over the fastest runtime of `base`, and its logarithm with its error if that is known.

    Returns None if the two cannot be compared, or if the latency is that of a runtime of `base`.
    """
    timing = row.entries[column].timing if column in row.entries else None
    if not timing or timing.runtime in base:
        return None
    than = _base(row, timing.alike, base)
    point = than and speedups.point(than.latency, timing.latency)
    if not than or not point:
        return None
    return point, speedups.difference(than.latency, timing.latency)


def _base(row: Row, alike: tuple, names: Sequence[str]) -> Timing | None:
    """Return the lowest latency of these runtimes in a row, among those that can be compared.

    Returns None if one of the runtimes has no such latency.
    """
    found: dict[str, Timing] = {}
    for entry in row.entries.values():
        if (t := entry.timing) and t.alike == alike and t.runtime in names:
            found.setdefault(t.runtime, t)
    if len(found) < len(names):
        return None
    return min(found.values(), key=lambda timing: timing.ms)
