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

from scripts.records import speedups
from scripts.records.provenance import Provenance
from scripts.records.row import Column, Row, Timing
from scripts.supervise import outcome
from scripts.timing import ratios
from scripts.timing.ratios import Difference, Interval

Record = Mapping[str, Any]
Place = tuple[bool, str]
"""(whether it is a target, name of the target or baseline). If its device is missing, none of its rows can run."""


@dataclass
class ModelRows:
    """The rows of a model in one test, by column: a line of the table. `size`: as far as it is known, such as
    `block, 2 layers`. `fastest`: see `_fastest`."""

    model: str
    test: str
    size: str
    entries: dict[Column, Row] = field(default_factory=dict)
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

    rows: tuple[ModelRows, ...]
    columns: tuple[Column, ...]
    absent: tuple[Absent, ...]
    means: tuple[Mean, ...]
    provenance: Provenance

    @classmethod
    def of(cls, records: Iterable[Record]) -> Table:
        """Return the table of some records, which are read once and not kept."""
        lines: dict[tuple[str, str], ModelRows] = {}
        provenance = Provenance()
        for record in records:
            provenance.add(record)
            row = Row.of(record)
            line = ModelRows(row.model, row.test, size_of(record))
            lines.setdefault((row.model, row.test), line).entries[row.column] = row
        rows = tuple(lines.values())
        for line in rows:
            line.fastest = frozenset(_fastest(line))
        every = in_order(rows)
        absent = _absent(rows, every)
        columns = tuple(column for column in every if _place(column) not in absent)
        means = tuple(_means(rows, columns))
        return cls(rows, columns, tuple(dict.fromkeys(absent.values())), means, provenance)

    @property
    def bases(self) -> list[int]:
        """Indices into BASES of the bases that at least one column has a mean over."""
        return [n for n in range(len(BASES)) if any(mean.over[n] for mean in self.means)]

    @property
    def has_intervals(self) -> bool:
        rows = (row for line in self.rows for row in line.entries.values())
        return any(row.timing and row.timing.ends_ms for row in rows)

    @property
    def doubts(self) -> dict[tuple[str, str], list[Column]]:
        """The columns with a doubt, by the row's label and the doubt."""
        columns_of: dict[tuple[str, str], list[Column]] = {}
        for line in self.rows:
            for column, row in line.entries.items():
                if row.timing and row.timing.doubt:
                    columns_of.setdefault((line.label, row.timing.doubt), []).append(column)
        return columns_of


def size_of(record: Record) -> str:
    """Return the size of a model, as far as its options and its configuration give it."""
    reference = record["reference"]
    resolved = reference.get("resolved") or record["model"]["options"]
    layers = reference.get("layers")
    parts = [str(resolved["size"])] if "size" in resolved else []
    return ", ".join(parts + ([f"{layers} layers"] if layers else []))


def _fastest(line: ModelRows) -> Iterator[Column]:
    """Yield the columns of the fastest latencies among those that can be compared.

    These are the lowest latency, and all others for which the interval of the ratio to the lowest contains 1. There is
    no fastest latency if no other one has such an interval, or if one of them is too wide to tell (Interval.is_telling).
    """
    groups: dict[Any, dict[Column, Timing]] = {}
    for column, row in line.entries.items():
        if row.timing:
            groups.setdefault(row.conditions, {})[column] = row.timing
    for group in groups.values():
        best = min(group, key=lambda column: group[column].ms)
        others = {
            column: difference.interval()
            for column, entry in group.items()
            if column != best
            and (difference := speedups.difference(entry.latency, group[best].latency))
        }
        if others and all(ratio.is_telling for ratio in others.values()):
            yield best
            yield from (column for column, ratio in others.items() if ratio.low <= 1)


def in_order(lines: Sequence[ModelRows]) -> list[Column]:
    """Return the columns: baselines, then the lowering paths of each target, in record order."""
    every = list(dict.fromkeys(column for line in lines for column in line.entries))
    targets = ["", *dict.fromkeys(column.target for column in every if column.target)]
    names = list(dict.fromkeys(column.name for column in every))
    return sorted(
        every, key=lambda column: (targets.index(column.target), names.index(column.name))
    )


def _place(column: Column) -> Place:
    return bool(column.target), column.target or column.name


def _absent(lines: Sequence[ModelRows], columns: Iterable[Column]) -> dict[Place, Absent]:
    """Return the targets and baselines without a timing some of whose rows lack their device, in the order of columns.
    Those that differ only in their names share an item."""
    by_place: dict[Place, list[Row]] = {_place(column): [] for column in columns}
    for line in lines:
        for column, row in line.entries.items():
            by_place[_place(column)].append(row)
    names: dict[Absent, list[Place]] = {}
    for place, rows in by_place.items():
        missing = [row for row in rows if row.ended.status == outcome.UNAVAILABLE]
        if not missing or any(row.timing for row in rows):
            continue
        others = Counter(row.reason for row in rows if row.ended.status != outcome.UNAVAILABLE)
        [(detail, _)] = Counter(row.ended.detail for row in missing).most_common(1)
        absent = Absent(
            places=(),
            is_target=place[0],
            rows=len(rows),
            without_device=len(missing),
            detail=detail,
            reasons=tuple(others.most_common()),
            by_other_path=sum(row.by_other_path for row in rows),
        )
        names.setdefault(absent, []).append(place)
    absent_in: dict[Place, Absent] = {}
    for absent, places in names.items():
        whole = replace(absent, places=tuple(name for _, name in places))
        absent_in |= dict.fromkeys(places, whole)
    return absent_in


def _means(lines: Sequence[ModelRows], columns: Sequence[Column]) -> Iterator[Mean]:
    """Yield the means of every column that has a measured row of a runtime other than eager."""
    for test in dict.fromkeys(line.test for line in lines):
        of_test = [line for line in lines if line.test == test]
        for column in columns:
            rows = [line.entries[column] for line in of_test if column in line.entries]
            timed = [row for row in rows if row.timing]
            if all(row.runtime == "eager" for row in timed):
                continue
            over = tuple(_speedup(of_test, column, base) for base in BASES)
            if any(over):
                yield Mean(column, test, len(timed), len(rows), over)


def _speedup(lines: Sequence[ModelRows], column: Column, base: Sequence[str]) -> Speedup | None:
    """Return the geometric mean of the speed-ups of a column over the fastest runtime of `base`, from the rows in which both
    can be compared (`over`); None if there is no such row."""
    pairs = [difference for line in lines if (difference := over(line, column, base))]
    if not pairs:
        return None
    mean = statistics.geometric_mean(value for value, _ in pairs)
    known = [difference for _, difference in pairs if difference]
    interval = ratios.mean(known).interval() if len(known) == len(pairs) else None
    return Speedup(mean, interval, len(pairs))


def over(
    line: ModelRows, column: Column, base: Sequence[str]
) -> tuple[float, Difference | None] | None:
    """Return the speed-up of a latency over the fastest runtime of `base`, and its logarithm with its error if that is known.

    Returns None if one of these runtimes has no latency that can be compared, or if the latency is that of one of them.
    """
    row = line.entries.get(column)
    if row is None or row.timing is None or row.runtime in base:
        return None
    bases: dict[str, Timing] = {}
    for other in line.entries.values():
        if other.timing and other.conditions == row.conditions and other.runtime in base:
            bases.setdefault(other.runtime, other.timing)
    if len(bases) < len(base):
        return None
    than = min(bases.values(), key=lambda timing: timing.ms).latency
    point = speedups.point(than, row.timing.latency)
    return (point, speedups.difference(than, row.timing.latency)) if point else None
