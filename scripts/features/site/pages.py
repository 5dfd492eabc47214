"""How a page of the site is written: with the scripts and styles of the report page, which all pages share."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.core import atomic
from scripts.features.compare.history import series
from scripts.features.compare.history.store import Entry, Kept
from scripts.features.report.web import page, page_source, views
from scripts.features.report.web.page_source import Source, View
from scripts.records.fields import TEXT, Field

if TYPE_CHECKING:
    from scripts.features.site.model_pages import Newest

Table = dict[str, Any]
"""A table of texts, as report.textTable of table.js draws it."""
NO_RESULTS = Path("/nonexistent/results")
"""In place of a results folder: rows of former runs have no files any more."""
OWN = [Path(__file__).parent / f"{name}.js" for name in ("lists", "statistics", "pairs")]
"""The scripts that report.html does not have."""
CHARTS, ENGINE, STYLE = "assets/charts.js", "assets/site.js", "assets/site.css"
"""The scripts that only pages with charts need, those that all do, and the styles."""
ALLOWED = "'self' file:"
"""Sources of scripts, styles and pictures: the folder of the site, on a server or on a disk."""


@dataclass(frozen=True)
class Site:
    """`out`: its folder. `runs`: oldest first. `results`: the results folder of those runs whose files it still has, by id."""

    out: Path
    runs: Sequence[Kept]
    results: Mapping[str, Path]

    @functools.cached_property
    def entries(self) -> list[Entry]:
        return [kept.entry for kept in self.runs]

    @functools.cached_property
    def places(self) -> dict[str, int]:
        """The places of the runs by id."""
        return {entry.id: place for place, entry in enumerate(self.entries)}

    @functools.cached_property
    def machines(self) -> dict[str, str]:
        """The machines by name, in words."""
        known = [entry.machine for entry in self.entries]
        return {each.name: f"{each.cpu}, {each.cores} cores ({each.name[:8]})" for each in known}

    @functools.cached_property
    def packages(self) -> set[str]:
        """The packages whose versions are known."""
        return {name for entry in self.entries for known in entry.toolchains.values() for name in known}  # fmt: skip

    def runs_of(self, machine: str) -> list[int]:
        """The places of the runs of a machine."""
        return [place for place, entry in enumerate(self.entries) if entry.machine.name == machine]

    def before(self, place: int) -> int | None:
        """The place of the run before on the same machine; None for its first."""
        earlier = [run for run in self.runs_of(self.entries[place].machine.name) if run < place]
        return earlier[-1] if earlier else None


def slug(name: str) -> str:
    """Return the name of a file for a name, which may hold anything. The same name has the same file in each site."""
    safe = re.sub(r"[^A-Za-z0-9._+-]+", "-", name)[:80].strip(".-")
    if safe == name:
        return safe
    return f"{safe}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}".lstrip("-")


def link(text: str, href: str) -> dict[str, str]:
    """A cell of a table that leads to another page."""
    return {"text": text, "href": href}


def run_link(site: Site, place: int, root: str) -> dict[str, str]:
    """A link to the page of a run. `root`: the way to the folder of the site."""
    entry = site.entries[place]
    return link(f"{series.when(entry.at)} ({entry.short})", f"{root}runs/{entry.id}.html")


def machine_link(site: Site, name: str, root: str) -> dict[str, str]:
    """A link to the page of a machine."""
    return link(site.machines[name], f"{root}machines/{slug(name)}.html")


def table(title: Any, head: Sequence[str], lines: Sequence[Sequence[Any]], note: str = "", right: Sequence[int] = ()) -> Table:  # fmt: skip
    """A table of texts and links. `right`: the places of columns of numbers."""
    return {"title": title, "head": head, "rows": lines, "note": note, "right": right}


def badge(name: str, file: str, root: str) -> Table:
    """A badge, and how to show it elsewhere."""
    shown = {"image": f"{root}badges/{file}.svg", "command": f"![{name}](badges/{file}.svg)"}
    return table("Badge", [], [], "In Markdown, by its path in this site:") | shown


def list_view(name: str, title: str, tables: Sequence[Table]) -> View:
    """A view that shows tables of texts."""
    return View(name, title, lambda _: {"tables": tables}, script="lists")


def further(site: Site, newest: Sequence[Newest]) -> list[tuple[Field, list[Any]]]:
    """The columns of rows that latency.csv does not have: where and when they were measured."""
    runs = [site.entries[row.run] for row in newest]
    times = [(row.record["latency"] or {}).get("started") or site.entries[row.run].made for row in newest]  # fmt: skip
    columns = {
        "machine": ("Machine of the run.", [site.machines[row.machine] for row in newest]),
        "run": ("Run that has the row.", [entry.short for entry in runs]),
        "measured": ("When it was timed, or else when the run ended (UTC).", [*map(series.when, times)]),
    }  # fmt: skip
    return [(Field("", TEXT, about, column=name), values) for name, (about, values) in columns.items()]  # fmt: skip


def write(
    site: Site,
    path: str,
    source: Source,
    shown: Sequence[View],
    table: Mapping[str, Any],
    title: str,
    with_charts: bool = False,
    with_details: bool = True,
) -> None:
    """Write a page. `path`: in the site. `table`: of rows.table. `title`: what the page is about."""
    root = "../" * path.count("/")
    scripts = [CHARTS, ENGINE] if with_charts else [ENGINE]
    feed = (
        f'<link rel="alternate" type="application/atom+xml" title="Changes" href="{root}feed.xml">'
    )
    whole = page.filled(
        page.elements(source, shown, table, title, root, with_details),
        title=f"{title} · vmfbench",
        styles=f'<link rel="stylesheet" href="{root}{STYLE}">\n{feed}',
        scripts="\n".join(f'<script src="{root}{script}"></script>' for script in scripts),
        allowed=ALLOWED,
        beside=ALLOWED,
        home=f'<a href="{root}index.html">vmfbench</a>',
        instead=f'The rows are in <a href="{root}data/rows.csv">data/rows.csv</a>.',
    )
    # No fsync: the whole folder takes its place at the end.
    (site.out / path).write_text(whole, encoding="utf-8", errors="replace")


def write_lists(site: Site, path: str, shown: Sequence[View], title: str, with_charts: bool = False) -> None:  # fmt: skip
    """Write a page without rows."""
    nothing = Source(NO_RESULTS, [])
    write(site, path, nothing, shown, page_source.table_of_rows(nothing, ("model",)), title, with_charts, with_details=False)  # fmt: skip


def write_assets(site: Site) -> None:
    """Write the scripts and styles that all pages share."""
    names = page.script_names(views.loaded())
    *engine, start = [page.text(page.HERE / name) for name in names if name not in page.LIBRARIES]
    libraries = [page.text(page.HERE / name) for name in page.LIBRARIES]
    atomic.write_text(site.out / ENGINE, "\n".join([*engine, *map(page.text, OWN), start]))
    atomic.write_text(site.out / CHARTS, "\n".join(libraries))
    atomic.write_text(site.out / STYLE, page.text(page.HERE / page.STYLE))
