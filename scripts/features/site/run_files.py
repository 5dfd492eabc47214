"""What the browser needs of a run to compare it with another: a script per run, which pairs.js loads.

It is a script and no JSON file, because pages that are opened from a disk may load nothing else. A column whose values repeat is a list of values and,
for each row, the place of its value in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from scripts.core import atomic
from scripts.features.compare import formats, latencies, outcome_changes, pairs
from scripts.features.compare.comparing import AMOUNTS, MATTERS, Settings
from scripts.features.compare.history import series
from scripts.features.compare.outcome_changes import Ending
from scripts.features.report.web import page
from scripts.features.report.web.page_source import View
from scripts.features.site.pages import Site
from scripts.records import speedups
from scripts.records.fields import lookup
from scripts.records.results_file import cell_of
from scripts.timing import decisions, ratios

FOLDER = "data/runs"
MOST_CELLS = 200
"""Cells of the chart of a comparison."""
DIGITS = 7
"""After the point, of the logarithms of ratios."""
Builds = dict[str, set[str]]


def write(site: Site, place: int) -> Builds:
    """Write the file of a run; return the builds of IREE that its rows name, such as `3.13.0 @ 89ece87b89`, by version.

    Raises Damaged, with file and line, for a row that is not a record of this project.
    """
    kept = site.runs[place]
    rows: list[dict[str, Any]] = []
    builds: Builds = defaultdict(set)
    for record in kept.records():
        rows.append(_row(record))
        versions = record["versions"]
        if build := versions.get("iree_build"):
            builds[str(versions.get("iree"))].add(build)
    # The last row of a cell counts, as in a comparison of two files.
    rows = [*{row["cell"]: row for row in rows}.values()]
    text = f'report.addRun("{kept.entry.id}", "{page.packed(_columns(rows))}");\n'
    atomic.write_text(site.out / FOLDER / f"{kept.entry.id}.js", text)
    return dict(builds)


def view(site: Site, title: str, chosen: tuple[int, int] | None = None) -> View:
    """The view that compares two runs: the `chosen` ones, before and after, or those that one selects on the page."""
    runs = [
        {
            "id": entry.id,
            "words": f"run {entry.short} ({series.when(entry.at)})",
            "about": f"{entry.versions}; {site.machines[entry.machine.name]}",
            "before": None if (before := site.before(place)) is None else site.entries[before].id,
        }
        for place, entry in enumerate(site.entries)
        if chosen is None or place in chosen
    ]
    data = {
        "chosen": chosen and [site.entries[place].id for place in chosen],
        "runs": runs,
        "settings": asdict(Settings()),
        "matters": MATTERS,
        "amounts": {key: [amount.words, amount.unit, amount.least] for key, amount in AMOUNTS.items()},
        "kinds": outcome_changes.KINDS,
        "of_model": pairs.OF_MODEL,
        "is_anchor": latencies.IS_ANCHOR,
        "sections": [asdict(section) for section in formats.empty_sections()],
        "shown": formats.SHOWN,
        "cells": MOST_CELLS,
        "least": ratios.LEAST,
        "confidence": ratios.CONFIDENCE,
        "power": decisions.POWER,
    }  # fmt: skip
    return View("comparison", title, partial(_given, data), script="pairs")


def _given(data: Mapping[str, Any], _: object) -> Mapping[str, Any]:
    return data


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a comparison takes from a record (comparing.py, latencies.py)."""
    ending = Ending.of_record(record)
    latency = record["latency"]
    return {
        "cell": str(cell_of(record)),
        "ending": (ending.state, ending.failure, ending.words, ending.detail),
        "versions": tuple(record["versions"].items()),
        "options": tuple(pairs.options_of(record).items()),
        "conditions": [(name, _text(value)) for name, value in pairs.conditions_of(record).items()],
        "groups": tuple(latencies.groups_of(record)),
        "amounts": [lookup(record, amount.path) for amount in AMOUNTS.values()],
        "latency": latency and _latency(latency),
    }


def _text(value: Any) -> str | tuple[tuple[str, str], ...] | None:
    """A condition as texts, as pairs.difference prints it; of a mapping, each part."""
    if isinstance(value, Mapping):
        return tuple((str(name), str(part)) for name, part in sorted(value.items()))
    return None if value is None else str(value)


def _latency(latency: Mapping[str, Any]) -> list[Any]:
    """The milliseconds, the group, its anchor, whether this row is the anchor, generations, and the logarithms of its ratio to the anchor
    with the scale and degrees of freedom of their mean, where it has an interval."""
    values, anchor = latency["values_ms"], latency["anchor_ms"]
    own = [latency["ms"], latency["group"], latency["anchor"], anchor == values, latency["generations"]]  # fmt: skip
    if not anchor or len(anchor) != len(values):
        return [*own, [], None, None]
    logs = latencies.term("", anchor, values).logs
    known = ratios.of_logs(logs, speedups.noise(latency))
    rounded = [round(log, DIGITS) for log in logs]
    return [*own, rounded, *((known.scale, known.df) if known else (None, None))]


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    by_name: dict[str, list[Any]] = defaultdict(list)
    for place, row in enumerate(rows):
        for name, value in row["conditions"]:
            column = by_name[name]
            column += [None] * (place - len(column))
            column.append(value)
    timed = [row["latency"] for row in rows]
    return {
        "cells": [row["cell"] for row in rows],
        **{name: _coded(row[name] for row in rows) for name in ("ending", "versions", "options", "groups")},
        "conditions": {name: _coded([*column, *[None] * (len(rows) - len(column))]) for name, column in by_name.items()},
        "amounts": {key: [row["amounts"][at] for row in rows] for at, key in enumerate(AMOUNTS)},
        "group": _coded(each[1] if each else None for each in timed),
        "anchor": _coded(each[2] if each else None for each in timed),
        "latency": [[each[0], *each[3:]] if each else None for each in timed],
    }  # fmt: skip


def _coded(values: Iterable[Any]) -> dict[str, list[Any]]:
    """A column whose values repeat."""
    places: dict[Any, int] = {}
    at = [places.setdefault(value, len(places)) for value in values]
    return {"values": [*places], "at": at}
