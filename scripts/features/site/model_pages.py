"""The rows of all runs by model: the series of each cell with what changed, its newest rows, and the page of each model.

A process handles a part of the models, because all rows of all runs do not fit into the memory of a small machine.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from scripts.features.compare import outcome_changes, page_views
from scripts.features.compare.history import series, words
from scripts.features.compare.history.series import LATENCY, Series, Step
from scripts.features.compare.history.store import Kept
from scripts.features.compare.outcome_changes import BROKEN, FIXED, NEWLY_RIGHT, NEWLY_WRONG
from scripts.features.compare.pairs import changed
from scripts.features.report.web import page_source, views
from scripts.features.report.web.page_source import Record, Source, View
from scripts.features.site import files, pages
from scripts.features.site.pages import Site, Table, slug
from scripts.matrix.cell import without_toolchain
from scripts.records.results_file import cell_of
from scripts.records.row import VERIFIED
from scripts.supervise import outcome

WHAT = {LATENCY: "latency", "vmfb_bytes": "size of the module", "compile_s": "time of the compilation"}  # fmt: skip
"""The columns whose series are made, in words."""
OUTCOME = "outcome"
WORSE, BETTER = "slower", "faster"
"""The styles of changes for the worse and for the better."""
KINDS = {BROKEN: WORSE, NEWLY_WRONG: WORSE, FIXED: BETTER, NEWLY_RIGHT: BETTER}
OF_MODEL = ("overview", "latency", "history", "versions", "threads", "training", "failures", "why", "memory")  # fmt: skip
"""The views of a model's page, in order."""
IREE = "IREE"


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest row of a cell on a machine. `run`: the place of its run."""

    run: int
    machine: str
    cell: str
    record: Record

    @property
    def model(self) -> str:
        return str(self.record["model"]["name"])

    @property
    def rank(self) -> tuple[bool, int]:
        """Of the rows of a cell, the one with the highest rank counts: the newest of the machines that have its device."""
        return self.record["outcome"]["status"] != outcome.UNAVAILABLE, self.run


@dataclass(frozen=True)
class Change:
    """What changed in a cell between two runs. `what`: of WHAT, or OUTCOME. `kind`: WORSE, BETTER, or "" if it is neither. `size`: to put
    the largest first. `differs`: how the cell was made, in words. `versions`: those of packages that differ, before and after."""

    run: int
    cell: str
    model: str
    what: str
    words: str
    kind: str
    size: float
    differs: tuple[str, ...]
    versions: Mapping[str, tuple[str, str]]


@dataclass
class Model:
    """What the runs have of a model: the newest rows of its cells, and their series, as series.read returns them."""

    name: str
    newest: list[Newest] = field(default_factory=list)
    outcomes: list[Series] = field(default_factory=list)
    values: dict[str, list[Series]] = field(default_factory=lambda: {name: [] for name in WHAT})


class _Name(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    model: _Name


@dataclass(frozen=True)
class _Lines:
    """A run as series.read reads it: only the records of a part. Each is noted in `newest`."""

    kept: Kept
    place: int
    part: tuple[int, int]
    newest: dict[tuple[str, str], Newest]

    @property
    def entry(self) -> Any:
        return self.kept.entry

    def records(self) -> Iterator[dict[str, Any]]:
        number, count = self.part
        machine, named = self.entry.machine.name, msgspec.json.Decoder(_Named)
        for line in self.kept.text().split(b"\n"):
            if line and zlib.crc32(named.decode(line).model.name.encode()) % count == number:
                record = msgspec.json.decode(line)
                cell = str(cell_of(record))
                self.newest[machine, cell] = Newest(self.place, machine, cell, record)
                yield record


def make(site: Site, part: tuple[int, int]) -> tuple[list[Newest], list[Change]]:
    """Write the pages of the models of a part; return their rows and changes. `part`: its number, and that of all parts."""
    newest: dict[tuple[str, str], Newest] = {}
    lines: Any = [_Lines(kept, place, part, newest) for place, kept in enumerate(site.runs)]
    columns = [series.value_field(name) for name in WHAT]
    outcomes, values = series.read(lines, columns, lambda cell: True)
    models: dict[str, Model] = {}
    of_cell: dict[str, Model] = {}
    for row in newest.values():
        of_cell[row.cell] = models.setdefault(row.model, Model(row.model))
        of_cell[row.cell].newest.append(row)
    for each in outcomes:
        of_cell[each.cell].outcomes.append(each)
    for name, of_column in values.items():
        for each in of_column:
            of_cell[each.cell].values[name].append(each)
    for model in models.values():
        _write(site, model)
    return [*newest.values()], [change for model in models.values() for change in _changes(site, model)]  # fmt: skip


def today(newest: Sequence[Newest]) -> list[Newest]:
    """Return the row of each cell that counts today."""
    best: dict[str, Newest] = {}
    for row in newest:
        best[row.cell] = max(row, best.get(row.cell, row), key=lambda each: each.rank)
    return [*best.values()]


def _changes(site: Site, model: Model) -> Iterator[Change]:
    def change(step: Step, what: str, said: str, kind: str, size: float) -> Change:
        differs = changed(step.before.made_with, step.after.made_with)
        versions = {name: (old or "", new or "") for name, old, new in differs if name in site.packages}  # fmt: skip
        place = site.places[step.after.entry.id]
        return Change(place, step.cell, model.name, what, said, kind, size, tuple(step.differs), versions)  # fmt: skip

    for step in (step for each in model.outcomes for step in each.steps):
        before, after = step.before.ending, step.after.ending
        known = outcome_changes.change(step.cell, before, after)
        kind = KINDS.get(known.kind, "") if known else ""
        detail = f": {after.detail[:200]}" if kind == WORSE and after.detail else ""
        yield change(step, OUTCOME, f"{before.words} → {after.words}{detail}", kind, math.inf)
    for name, each in ((name, each) for name, of_column in model.values.items() for each in of_column):  # fmt: skip
        for step in each.steps:
            ratio = step.ratio.ratio
            is_worse = (ratio < 1) if each.anchor else (ratio > 1)
            said = words.interval(step.ratio)
            said = f"speed {said}, relative to {each.anchor}" if each.anchor else said
            size = abs(math.log(ratio)) if 0 < ratio < math.inf else math.inf
            yield change(step, WHAT[name], said, WORSE if is_worse else BETTER, size)


def _write(site: Site, model: Model) -> None:
    """Write the page and the badge of a model."""
    shown = today(model.newest)
    runs = {row.run for row in shown}
    # The logs and profiles of a results folder are those of its last run.
    last = site.entries[max(runs)].id if len(runs) == 1 else ""
    source = Source(site.results.get(last, pages.NO_RESULTS), [row.record for row in shown])
    places = {row.cell: place for place, row in enumerate(shown)}
    history = page_views.of_series(site.entries, model.outcomes, model.values, places)
    for run, entry in zip(history["runs"], site.entries, strict=True):
        run["page"] = f"../runs/{entry.id}.html"
    named = {view.name: replace(view, missing="") for view in views.loaded()}
    named["history"] = View("history", "History", lambda _: history)
    named["versions"] = pages.list_view("versions", "Versions", _versions(site, model))
    if "why" in named:
        named["why"] = replace(named["why"], select=functools.partial(_why, model.name))
    verified = sum(row.ending == VERIFIED for row in source.rows)
    pages.write(
        site,
        f"models/{slug(model.name)}.html",
        source,
        [named[name] for name in OF_MODEL if name in named],
        page_source.table_of_rows(source, further=pages.further(site, shown)),
        f"{model.name}: {verified} of {len(shown)} cells verified",
        with_charts=True,
    )
    badge = site.out / "badges" / f"{slug(model.name)}.svg"
    files.badge(badge, model.name, *files.best(source.rows))


@functools.cache
def _profiles(results: Path) -> Mapping[str, Any]:
    """The data of the view of profiles of a results folder, by model."""
    [view] = [view for view in views.loaded() if view.name == "why"]
    known = view.select(Source(results, [])) if results.is_dir() else None
    by_model = defaultdict(list)
    for cell in known["cells"] if known else ():
        by_model[cell["cell"].split("/")[0]].append(cell)
    return by_model


def _why(model: str, source: Source) -> Mapping[str, Any] | None:
    cells = _profiles(source.results).get(model)
    return {"cells": cells} if cells else None


def _versions(site: Site, model: Model) -> list[Table]:
    """Tables of the newest value of each cell by version of IREE, and of its rows by machine; and the badge."""
    cells: defaultdict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    latencies: dict[tuple[str, str, str], Any] = {}
    for each in model.values[LATENCY]:
        for point in each.points:
            key = _base(each.cell), point.entry.machine.cpu, point.made_with.get(IREE, "")
            latencies[key] = _value(point, each)
    for each in model.outcomes:
        for point in each.points:
            if version := point.made_with.get(IREE):
                key = _base(each.cell), point.entry.machine.cpu, version
                timed = latencies.get(key) if point.status == outcome.OK else None
                cells[key[:2]][version] = timed or point.ending.words
    versions = sorted(
        {version for known in cells.values() for version in known}, key=_number, reverse=True
    )
    by_cell = [[*key, *(known.get(version, "") for version in versions)] for key, known in cells.items()]  # fmt: skip
    note = "The newest measurement with each version: how many times as fast as eager it was, or milliseconds where eager was not timed beside it, or how the cell ended."
    tables = [pages.table(f"By version of {IREE}", ["cell", "CPU", *versions], by_cell, note)] if by_cell else []  # fmt: skip
    if len({row.machine for row in model.newest}) > 1:
        by_machine = [
            [row.cell, pages.machine_link(site, row.machine, "../"), pages.run_link(site, row.run, "../"), files.said(row.record)]
            for row in sorted(model.newest, key=lambda row: row.cell)
        ]  # fmt: skip
        tables.append(pages.table("By machine", ["cell", "machine", "run", "newest row"], by_machine))  # fmt: skip
    return [*tables, pages.badge(model.name, slug(model.name), "../")]


def _base(cell: str) -> str:
    """A cell without its toolchain."""
    return "/".join(map(without_toolchain, cell.split("/")))


def _number(version: str) -> list[tuple[int, str]]:
    """A key that sorts versions: 3.9 before 3.12."""
    return [(int(part) if part.isdigit() else -1, part) for part in version.replace("rc", ".").split(".")]  # fmt: skip


def _value(point: series.Point, each: Series) -> Any:
    """A latency, coloured by its verdict against the anchor."""
    value, ends = point.value or 0.0, point.ends
    if not each.anchor:
        return f"{value:.3g} ms"
    low, high = ends or (value, value)
    kind = BETTER if low > 1 else WORSE if high < 1 else "same"
    return {"text": f"× {value:.3g}" + (f" ({low:.3g} to {high:.3g})" if ends else ""), "kind": kind}  # fmt: skip
