"""Builds a site: the pages of models in several processes, then those that show all models."""

from __future__ import annotations

import math
import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scripts.core import atomic
from scripts.features.compare.history import series
from scripts.features.compare.history.store import Damaged, Kept
from scripts.features.report.web import page_source
from scripts.features.report.web.page_source import Source, View
from scripts.features.report.web.views import of_rows
from scripts.features.site import files, model_pages, pages, run_files
from scripts.features.site.model_pages import BETTER, IREE, WORSE, Change, Newest
from scripts.features.site.pages import (  # fmt: skip
    Site,
    Table,
    link,
    list_view,
    machine_link,
    run_link,
    slug,
    table,
)
from scripts.features.site.run_files import Builds
from scripts.records.fields import TEXT, Field
from scripts.records.row import VERIFIED, Row

MARK = "site.json"
"""Only a folder of which this is a file is replaced."""
COMPARE = "compare.html"
"""The page that compares any two runs."""
PER_PART = 60_000
"""Rows of all runs that a process handles at a time."""
OF_MAP = (
    *("model", "suite", "test", "dtype", "status", "stage", "reason", "remedy", "latency_ms", "verdict"),
    *(f"speedup_vs_{base}{end}" for base in ("eager", "inductor") for end in ("", "_low", "_high")),
)  # fmt: skip
"""The columns of latency.csv that a map has, with DIGITS digits of their numbers."""
DIGITS = 4
LINES = 60
"""Lines of a map before all are asked for."""
MOST_RUNS, MOST_CHANGES = 20, 20
"""Runs whose changes the first page lists, and of each the largest changes."""
MOST_OF_RUN = 500
"""Changes that the page of a run or release lists."""
ByRun = Mapping[int, Sequence[Change]]


def build(out: Path, runs: Sequence[Kept], results: Mapping[str, Path], jobs: int) -> str:
    """Write a site into an empty folder; return what it shows, in a sentence. `results`: the results folders of runs whose files
    they still have. Raises Damaged for a run that cannot be read, before anything is written."""
    site = Site(out, runs, results)
    for name in ("assets", "badges", run_files.FOLDER, "machines", "models", "releases", "runs"):
        (out / name).mkdir(parents=True)
    count = max(jobs, math.ceil(sum(entry.rows for entry in site.entries) / PER_PART))
    # A forked process has what this one has imported.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        places = range(len(runs))
        builds = _together(pool.map(partial(_explained, run_files.write, site), places))
        parts = [pool.submit(_explained, model_pages.make, site, (n, count)) for n in range(count)]
        parquet = pool.submit(_explained, files.write_parquet, site)
        pages.write_assets(site)
        model_parts = [part.result() for part in parts]
        newest = [row for of_part, _ in model_parts for row in of_part]
        changes = _in_order(change for _, of_part in model_parts for change in of_part)
        _write_pages(site, newest, changes, builds)
        parquet.result()
    atomic.write_json(out / MARK, {"made by": "vmfbench site"})
    models, cells = ({row.model for row in newest}, {row.cell for row in newest})
    return f"{len(cells)} cells of {len(models)} models in {len(runs)} runs on {len(site.machines)} machines"


def _explained(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; raise Damaged in place of the error that a value causes which an older row lacks, or which has another form."""
    try:
        return function(*arguments)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise Damaged(f"a row has another form than expected ({type(error).__name__}: {error}); was it made by another version? `--from` names the folders to read") from error  # fmt: skip


def _in_order(changes: Iterable[Change]) -> list[Change]:
    """Changes by run, those for the worse first, then the largest."""
    kinds = (WORSE, "", BETTER)
    return sorted(changes, key=lambda each: (each.run, kinds.index(each.kind), -each.size, each.cell))  # fmt: skip


def _together(of_runs: Iterable[Builds]) -> Builds:
    """The builds of IREE of all runs, by version."""
    together: Builds = defaultdict(set)
    for version, builds in ((version, builds) for known in of_runs for version, builds in known.items()):  # fmt: skip
        together[version] |= builds
    return together


def _write_pages(site: Site, newest: Sequence[Newest], changes: Sequence[Change], builds: Builds) -> None:  # fmt: skip
    by_run: defaultdict[int, list[Change]] = defaultdict(list)
    for change in changes:
        by_run[change.run].append(change)
    shown = sorted(model_pages.today(newest), key=lambda row: row.model.lower())
    source = Source(pages.NO_RESULTS, [row.record for row in shown])
    files.write_tables(site, shown, changes)
    files.write_feed(site, by_run)
    verified = sum(row.ending == VERIFIED for row in source.rows)
    words = f"{verified} of {len(shown)}"
    files.badge(site.out / "badges/all.svg", "verified", words, files.GOOD if verified else files.BAD)  # fmt: skip
    for place in range(len(site.runs)):
        _write_run(site, place, by_run[place])
    for name in site.machines:
        _write_machine(site, name, newest, by_run)
    compared = run_files.view(site, "Comparison")
    title = "Two runs compared"
    pages.write_lists(site, COMPARE, [compared], title, with_charts=True)
    lists = (
        list_view("changes", "Changes", _changes_tab(site, by_run)),
        list_view("models", "Models", [_models(site, shown, source.rows, changes)]),
        list_view("releases", "Releases", [_releases(site, changes, builds)]),
        list_view("runs", "Runs", [_any_two(), _machines(site), _runs(site, range(len(site.runs)), by_run, "")]),
        list_view("data", "Data", _data()),
    )  # fmt: skip
    title = f"{words} cells verified; {len(site.runs)} runs, the last of {series.when(site.entries[-1].at)}"  # fmt: skip
    _write_map(site, "index.html", source, shown, title, lists)


def _write_map(site: Site, path: str, source: Source, shown: Sequence[Newest], title: str, lists: Sequence[View]) -> None:  # fmt: skip
    """Write a page that begins with the map of some rows."""

    def select(source: Source) -> dict[str, Any]:
        # The options of models and entries are on the pages of the models.
        return of_rows.overview(source) | {"lines": LINES, "models": {}, "entries": {}}

    further = pages.further(site, shown)[:1] if len(site.machines) > 1 else []
    page = Field("", TEXT, "Page with its details.", column="page")
    known = page_source.table_of_rows(source, OF_MAP, [*further, (page, [slug(row.model) for row in shown])], DIGITS)  # fmt: skip
    own = View("overview", "Today", select)
    pages.write(site, path, source, [own, *lists], known, title, with_details=False)


def _change_table(title: Any, changes: Sequence[Change], most: int, root: str, note: str) -> Table:
    lines = [
        [
            link(each.cell, f"{root}models/{slug(each.model)}.html#history?text={quote(each.cell, safe='')}"),
            {"text": each.words, "kind": each.kind},
            each.what,
            ", ".join(each.differs),
        ]
        for each in changes[:most]
    ]  # fmt: skip
    if len(changes) > most:
        note += f". The {most} that are worst or largest are listed; data/changes.csv has all."
    return table(title, ["cell", "change", "of", "what differs from the run before"], lines, note)


def _changes_tab(site: Site, by_run: ByRun) -> list[Table]:
    places = sorted((place for place, changes in by_run.items() if changes), reverse=True)
    tables = [
        _change_table(run_link(site, place, ""), by_run[place], MOST_CHANGES, "", files.heading(by_run[place]))
        for place in places[:MOST_RUNS]
    ]  # fmt: skip
    return tables or [table("Changes", [], [], f"No change was found in {len(site.runs)} runs.")]


def _models(site: Site, shown: Sequence[Newest], known: Sequence[Row], changes: Sequence[Change]) -> Table:  # fmt: skip
    last = {change.model: run_link(site, change.run, "") for change in changes}
    by_model: defaultdict[str, list[Row]] = defaultdict(list)
    for each, row in zip(shown, known, strict=True):
        by_model[each.model].append(row)
    lines = [
        [
            link(model, f"models/{slug(model)}.html"),
            str(sum(row.ending == VERIFIED for row in of_model)),
            str(sum(row.failed is not None for row in of_model)),
            str(len(of_model)),
            files.best(of_model)[0],
            last.get(model, "–"),
        ]
        for model, of_model in by_model.items()
    ]
    head = ["model", "verified", "failed", "cells", "fastest of IREE", "last change"]
    return table("", head, lines, "Failed: also what a remedy compiles.", (1, 2, 3))


def _write_run(site: Site, place: int, changes: Sequence[Change]) -> None:
    entry, before = site.entries[place], site.before(place)
    about: list[list[Any]] = [
        ["id", entry.id],
        ["commit of vmfbench", entry.commit or "not known"],
        ["commits of the project", ", ".join(entry.commits) or "not known"],
        ["machine", machine_link(site, entry.machine.name, "../")],
        ["versions", entry.versions],
        ["rows", ", ".join(f"{count} {status}" for status, count in entry.statuses.items())],
        ["run before on this machine", "none" if before is None else run_link(site, before, "../")],
        ["comparison", link("with any other run", f"../{COMPARE}#comparison?after={entry.id}")],
    ]
    note = files.heading(changes) or "No change was found."
    changed = _change_table("What changed in this run", changes, MOST_OF_RUN, "../", note)
    shown = [list_view("run", "Run", [table("", ["", ""], about), changed])]
    if before is not None:
        shown.append(run_files.view(site, "Comparison with the run before", (before, place)))
    title = f"Run {entry.short} of {series.when(entry.at)}"
    pages.write_lists(site, f"runs/{entry.id}.html", shown, title, before is not None)


def _releases(site: Site, changes: Sequence[Change], builds: Builds) -> Table:
    """Write the page of each version of each package; return the table of them."""
    having: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, entry in enumerate(site.entries):
        for release in sorted({(name, version) for known in entry.toolchains.values() for name, versions in known.items() for version in versions}):  # fmt: skip
            having[release].append(place)
    changed: defaultdict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in changes:
        for package, (_, new) in change.versions.items():
            changed[package, new].append(change)
    lines = []
    for release, places in sorted(having.items(), key=lambda each: -each[1][0]):
        name, known = " ".join(release), changed[release]
        note = files.counted(known) or "No change was found in cells whose run before had another version."  # fmt: skip
        what = _change_table(f"Changes that came with {name}", known, MOST_OF_RUN, "../", note)
        commit = _commits(builds, release)
        built = [table("", ["", ""], [["commit", commit]])] if commit else []
        runs = list_view("runs", "Runs", [_runs(site, places, {}, "../")])
        path = f"releases/{slug('-'.join(release))}.html"
        pages.write_lists(
            site, path, [list_view("release", "What it changed", [*built, what]), runs], name
        )
        lines.append([link(name, path), commit, run_link(site, places[0], ""), str(len(places)), files.counted(known) or "none"])  # fmt: skip
    note = "A change counts for a release if the cell had another version in the run before; with several new versions in one run, it counts for each."
    return table("", ["release", "commit", "first run", "runs", "changes"], lines, note, (3,))


def _commits(builds: Builds, release: tuple[str, str]) -> str:
    """The commits from which a release was built, as its program prints them; "" where it was not recorded."""
    package, version = release
    known = builds.get(version, set()) if package == IREE else set()
    return ", ".join(sorted({build.rpartition(" @ ")[2] for build in known if " @ " in build}))


def _machines(site: Site) -> Table:
    runs = {name: site.runs_of(name) for name in site.machines}
    lines = [[machine_link(site, name, ""), str(len(places)), run_link(site, places[-1], "")] for name, places in runs.items()]  # fmt: skip
    return table("Machines", ["machine", "runs", "last run"], lines, "", (1,))


def _write_machine(site: Site, name: str, newest: Sequence[Newest], by_run: ByRun) -> None:
    own = [row for row in newest if row.machine == name]
    shown = sorted(own, key=lambda row: row.model.lower())
    source = Source(pages.NO_RESULTS, [row.record for row in shown])
    lists = [list_view("runs", "Runs", [_runs(site, site.runs_of(name), by_run, "../")])]
    _write_map(site, f"machines/{slug(name)}.html", source, shown, site.machines[name], lists)


def _runs(site: Site, places: Iterable[int], by_run: ByRun, root: str) -> Table:
    lines = []
    for place in sorted(places, reverse=True):
        entry = site.entries[place]
        ok = f"{entry.statuses.get('ok', 0)} of {entry.rows}"
        machine = machine_link(site, entry.machine.name, root)
        lines.append([run_link(site, place, root), entry.commit, machine, entry.versions, ok, files.counted(by_run.get(place, ()))])  # fmt: skip
    return table("Runs", ["run (UTC)", "commit", "machine", "versions", "ok", "changes"], lines, "", (4,))  # fmt: skip


def _any_two() -> Table:
    return table(link("Compare any two runs", COMPARE), [], [])


def _data() -> list[Table]:
    known = {
        "data/rows.csv": "the row of each cell that counts today, with the columns of latency.csv",
        "data/history.parquet": "the rows of all runs, with the columns of latency.csv that are values of a record, and time, commit and machine of the run",
        "data/changes.csv": "all changes that were found",
        "feed.xml": "an Atom feed with an entry per run that changed something",
    }
    query = "SELECT iree_version, model, target, min(latency_ms) FROM 'history.parquet' WHERE status = 'ok' GROUP BY ALL ORDER BY model, target"
    return [
        table("Files", ["file", "content"], [[link(path, path), what] for path, what in known.items()]),
        table("A query with DuckDB", [], []) | {"command": query},
        pages.badge("verified", "all", ""),
    ]  # fmt: skip
