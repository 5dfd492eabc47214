"""How results changed from run to run: changes with the run in which they happened, slow drifts, and series."""

from __future__ import annotations

from typing import Any

from scripts.features.compare.history import series, store
from scripts.features.compare.history.series import Shown
from scripts.features.compare.history.store import Damaged, Entry
from scripts.features.report.web.source import Source, View
from scripts.records.results_file import cell_of

VALUES = ("latency_ms", "vmfb_bytes", "compile_s")
"""Columns whose series the page has."""
MOST = 100
"""Runs, the newest ones."""


def select(source: Source) -> dict[str, Any] | None:
    """Return the runs and, by value, the series of the cells of this page; None if there are no two runs."""
    kept, _ = store.read(source.results / store.FOLDER.name)
    kept = kept[-MOST:]
    if len(kept) < 2:
        return None
    rows = {str(cell_of(one)): index for index, one in enumerate(source.records)}
    places = {one.entry.id: place for place, one in enumerate(kept)}
    columns = [series.value_field(name) for name in VALUES]
    try:
        outcomes, found = series.read(kept, columns, rows.__contains__)
    except Damaged:  # `vmfbench history` names the file
        return None
    values = {
        of.column: [_series(rows, places, series.shown(one, of)) for one in found[of.column]]
        for of in columns
    }
    return {
        "runs": [_run(one.entry) for one in kept],
        "values": values,
        "endings": [
            {
                "row": rows[one.cell],
                "run": places[one.after.entry.id],
                "before": one.before.ended,
                "after": one.after.ended,
                "differs": list(one.differs),
            }
            for one in series.endings(outcomes)
        ],
    }


def _run(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.short,
        "when": series.when(entry.at),
        "commit": entry.commit,
        "machine": f"{entry.machine.cpu}, {entry.machine.cores} cores",
        "versions": entry.versions,
        "rows": entry.rows,
        "ok": entry.statuses.get("ok", 0),
    }


def _series(rows: dict[str, int], places: dict[str, int], shown: Shown) -> dict[str, Any]:
    """Return a series with its changes. A point is the place of its run, its value, the ends of its interval and its milliseconds."""
    known = series.to_json(shown)
    return {
        "row": rows[shown.series.cell],
        "conditions": known["conditions"],
        "unit": known["unit"],
        "anchor": known["anchor"],
        "follows": known["follows"],
        "points": [[places[one["run"]], one["value"], *(one["interval"] or (None, None)), one["ms"]] for one in known["points"]],
        "changes": [{"run": places[one["run"]], "ratio": one["ratio"], "differs": one["differs"]} for one in known["changes"]],
        "drift": known["drift"],
    }  # fmt: skip


VIEW = View(
    "history",
    "History",
    select,
    "results/history/ has fewer than two runs. Every run that changes a row adds one; then make this page again: "
    "snakemake --cores 8 results/report.html",
)
