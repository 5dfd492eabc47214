"""The results table as data: one row per model, one column per baseline and lowering path; and the provenance of its rows: devices,
versions, times, models and configuration.

screen.py prints it on a terminal, and latency_page.py writes it to results/latency.md. Both take
all numbers, marks and reasons from here.
"""

from __future__ import annotations

import datetime
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import UNDECIDED, Difference, Interval
from scripts.results import latency_section, speedups
from scripts.results.columns import options_of
from scripts.results.row import Column, Row, Timing
from scripts.supervise import outcome

Record = Mapping[str, Any]

PACKAGES = {"torch": "PyTorch", "torch_xla": "PyTorch/XLA", "iree": "IREE", "python": "Python"}
"""Display names of packages by their keys in `versions`; "frontend" is shown as the exporter."""


@dataclass
class Provenance:
    """Collected record by record, in the order of the records.

    `devices`: (kind, name, threads) of all devices that were used. `versions`: versions by package.
    `measured`: rows with a latency. `started`: when the first and the last of them was timed, in seconds since the epoch.
    `ratios`, `decided`, `unknown`: speed-ups over eager and inductor, those whose interval says faster, slower or same, and those that
    are not known (speedups.add_speedups). `load`: the highest load average of these, where other processes disturbed them.
    `models`: options by name of the model. `entries`: for each kind (frontends, targets, baselines), the options of each
    entry of the configuration by name; an entry has several if its options differ between models.
    """

    rows: int = 0
    devices: dict[tuple[str, str, int | None], None] = field(default_factory=dict)
    versions: dict[str, set[str]] = field(default_factory=dict)
    started: tuple[float, float] | None = None
    measured: int = 0
    ratios: int = 0
    decided: int = 0
    unknown: int = 0
    load: float = 0.0
    models: dict[str, str] = field(default_factory=dict)
    entries: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Add one record."""
        self.rows += 1
        if "model" in record:  # the record of an operator problem has none
            self.models.setdefault(record["model"]["name"], model_options(record))
        self._add_versions(record)
        self._add_entries(record["experiment"])
        if record["latency"]:
            self._add_latency(record)

    @property
    def when(self) -> str:
        """When the first and the last row was timed, in UTC; "" if nothing was."""
        if self.started is None:
            return ""
        first, last = (datetime.datetime.fromtimestamp(at, datetime.UTC) for at in self.started)
        until = f"{last:%H:%M}" if last.date() == first.date() else f"{last:%Y-%m-%d %H:%M}"
        return f"{first:%Y-%m-%d %H:%M} to {until} UTC"

    @property
    def where(self) -> list[str]:
        """Such as `cpu: AMD EPYC, 2 threads`, for each device."""
        return [
            f"{kind}: {name}" + (f", {threads} threads" if threads else "")
            for kind, name, threads in sorted(self.devices, key=str)
        ]

    @property
    def measured_with(self) -> list[str]:
        """The devices, and such as `IREE 3.13.0` for each package."""
        versions = sorted(self.versions.items())
        return [
            *self.where,
            *(f"{name} {', '.join(sorted(numbers))}" for name, numbers in versions),
        ]

    @property
    def configuration(self) -> list[str]:
        """Such as `targets: llvm-cpu: llvm-cpu, host, O3`, for each entry."""
        return [
            f"{kind}: {name}: {'; '.join(variants)}"
            for kind, entries in self.entries.items()
            for name, variants in entries.items()
        ]

    def _add_versions(self, record: Record) -> None:
        called = {**PACKAGES, "frontend": record["experiment"].get("exporter") or "frontend"}
        for package, version in record["versions"].items():
            if version and not package.endswith("_build"):
                self.versions.setdefault(called.get(package, package), set()).add(version)

    def _add_latency(self, record: Record) -> None:
        run, latency = record["run"], record["latency"]
        device = record["experiment"]["device"], run["device_name"] or "", run["threads"]
        self.devices[device] = None
        self.measured += 1
        known = (latency["started"], *(self.started or ()))
        self.started = min(known), max(known)
        for base in speedups.BASES:
            value, low, high = (latency[f"speedup_vs_{base}{end}"] for end in ("", "_low", "_high"))
            is_unknown = base in latency.get("unknown", ())
            if is_unknown:
                self.unknown += 1
                if latency["foreign"] > latency_section.SHARE_OF_OTHERS:
                    self.load = max(self.load, latency["load"])
            elif value is None or speedups.runtime_of(record) == base:
                continue
            self.ratios += 1
            if low is not None and not is_unknown:
                self.decided += Interval(value, low, high).verdict != UNDECIDED

    def _add_entries(self, experiment: Mapping[str, Any]) -> None:
        if experiment["runtime"] != "iree":
            own = "" if experiment["precision"] == "none" else experiment["precision"]
            compile_ = options_as_text(experiment.get("compile") or {})
            words = (
                experiment["runtime"],
                experiment["device"],
                own,
                experiment["xla_flags"],
                compile_,
            )
            self._add_entry("baselines", experiment["target"] or experiment["runtime"], *words)
            return
        options = options_as_text(experiment.get("exporter_options") or {})
        self._add_entry("frontends", experiment["frontend"], experiment.get("exporter"), options)
        flags = " ".join(experiment.get("flags") or ())
        arch, level = experiment.get("arch"), experiment.get("opt_level")
        self._add_entry("targets", experiment["target"], experiment["backend"], arch, level, flags)

    def _add_entry(self, kind: str, name: str, *words: str | None) -> None:
        descriptions = self.entries.setdefault(kind, {}).setdefault(name, [])
        if (shown := ", ".join(filter(None, words))) not in descriptions:
            descriptions.append(shown)


def model_options(record: Record) -> str:
    """Return the options that a model was built with, and its depth."""
    reference = record["reference"]
    depth = {key: reference[key] for key in ("layers", "vocab_size") if key in reference}
    return options_as_text({**options_of(record), **depth})


def options_as_text(options: Mapping[str, Any]) -> str:
    """Return options as text, such as `size=block, seq_len=128`."""
    return ", ".join(f"{key}={value}" for key, value in options.items())


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
    """The geometric mean of `count` speed-ups, with its interval; None if no speed-up is known."""

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
    def of_records(cls, records: Iterable[Record]) -> Table:
        """Return the table of some records, which are read once and not kept."""
        lines: dict[tuple[str, str], ModelRows] = {}
        provenance = Provenance()
        for record in records:
            provenance.add(record)
            row = Row.of_record(record)
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

    @functools.cached_property
    def all_doubtful(self) -> bool:
        """Whether there is a doubt about every latency, so that a mark would not tell one from another."""
        rows = (row for line in self.rows for row in line.entries.values())
        return all(row.timing.doubt for row in rows if row.timing)

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
    options, layers = options_of(record), record["reference"].get("layers")
    parts = [str(options["size"])] if "size" in options else []
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
    """Return the geometric mean of the speed-ups of a column over the fastest runtime of `base`, from the rows whose speed-up
    is known (Interval.is_known): others may be wrong by any factor. None if there is no comparable row."""
    every = [of_line for line in lines if (of_line := over(line, column, base)) is not None]
    known = [difference for difference in every if difference]
    at = ratios.mean(known).interval() if known else None
    return Speedup(at, len(known)) if every else None


def over(
    line: ModelRows, column: Column, base: Sequence[str]
) -> Difference | Literal[False] | None:
    """Return the logarithm of the speed-up of a latency over the fastest runtime of `base`; False if it is not known (Interval.is_known).

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
    if not speedups.is_comparable(than, row.timing.latency):
        return None
    difference = speedups.difference(than, row.timing.latency)
    return difference if difference and difference.interval().is_known else False
