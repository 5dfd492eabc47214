"""The views of the report page that show comparisons and the history."""

from __future__ import annotations

from typing import Any

from scripts.core import atomic
from scripts.features.compare.history import series, store
from scripts.features.compare.history.series import Series
from scripts.features.compare.history.store import Damaged, Entry
from scripts.features.report.web.page_source import AGAIN, Source, View

MOST_RUNS = 100
"""Runs of the history, the newest ones."""
WITH_SERIES = ("latency_ms", "vmfb_bytes", "compile_s")
"""Columns whose history the page has."""
_OF_COMPARISON = ("before", "after", "summary", "tables", "latencies")


def comparison(source: Source) -> dict[str, Any] | None:
    """Return what `vmfbench compare --save results/comparison.json` has found. Raises ValueError or KeyError for a file of
    another form."""
    path = source.results / "comparison.json"
    if not path.is_file():
        return None
    found = atomic.read_json(path)
    return {key: found[key] for key in _OF_COMPARISON}


def history(source: Source) -> dict[str, Any] | None:
    """Return the runs and, by value, the series of the cells of this page; None if there are no two runs."""
    kept, _ = store.read(source.results / store.FOLDER.name)
    kept = kept[-MOST_RUNS:]
    if len(kept) < 2:
        return None
    rows = {str(row.cell): index for index, row in enumerate(source.rows)}
    places = {one.entry.id: place for place, one in enumerate(kept)}
    columns = [series.value_field(name) for name in WITH_SERIES]
    try:
        outcomes, found = series.read(kept, columns, rows.__contains__)
    except Damaged:  # `vmfbench history` names the file
        return None
    values = {of.column: [_series(rows, places, one) for one in found[of.column]] for of in columns}
    return {
        "runs": [_run(one.entry) for one in kept],
        "values": values,
        "endings": [
            {
                "row": rows[step.cell],
                "run": places[step.after.entry.id],
                "before": step.before.ending.words,
                "after": step.after.ending.words,
                "differs": step.differs,
            }
            for one in outcomes
            for step in one.steps
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


def _series(rows: dict[str, int], places: dict[str, int], found: Series) -> dict[str, Any]:
    """Return a series with its changes. A point is the place of its run, its value, the ends of its interval and its milliseconds."""
    known = found.to_json()
    return {
        "row": rows[found.cell],
        **{key: known[key] for key in ("conditions", "unit", "anchor", "follows")},
        "points": [[places[one["run"]], one["value"], *(one["interval"] or (None, None)), one["ms"]] for one in known["points"]],
        "changes": [{"run": places[one["run"]], "ratio": one["ratio"], "differs": one["differs"]} for one in known["changes"]],
        "drift": known["drift"],
    }  # fmt: skip


VIEWS = (
    View("history", "History", history, f"results/history/ has fewer than two runs. Every run that changes a row adds one; {AGAIN}snakemake --cores 8 results/report.html"),
    View("comparison", "Comparison", comparison, f"Nothing was compared. Compare with an earlier run, {AGAIN}vmfbench compare BEFORE/results results --save results/comparison.json"),
)  # fmt: skip
