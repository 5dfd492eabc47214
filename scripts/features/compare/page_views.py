"""The views of the report page that show comparisons and the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scripts.core import atomic, checkout
from scripts.features.compare.history import series, store
from scripts.features.compare.history.series import Series
from scripts.features.compare.history.store import Damaged, Entry
from scripts.features.report.web.page_source import AGAIN, Source, View, short

MOST_RUNS = 100
"""Runs of the history, the newest ones."""
WITH_SERIES = ("latency_ms", "vmfb_bytes", "compile_s")
"""Columns whose history the page has."""
_OF_COMPARISON = ("before", "after", "summary", "tables", "latencies")


def comparison(source: Source) -> dict[str, Any] | None:
    """Return what `vmfbench compare --format json=results/comparison.json` has found. Raises ValueError or KeyError for a file of
    another form."""
    path = source.results / "comparison.json"
    if not path.is_file():
        return None
    saved = atomic.read_json(path)
    return {key: saved[key] for key in _OF_COMPARISON}


def history(source: Source) -> dict[str, Any] | None:
    """Return the runs and, by value, the series of the cells of this page; None if there are no two runs."""
    kept, _ = store.read(source.results / store.FOLDER.name)
    kept = kept[-MOST_RUNS:]
    if len(kept) < 2:
        return None
    rows = {str(row.cell): index for index, row in enumerate(source.rows)}
    columns = [series.value_field(name) for name in WITH_SERIES]
    try:
        outcomes_and_values = series.read(kept, columns, rows.__contains__)
    except Damaged:  # `vmfbench history` names the file
        return None
    return of_series([entry.entry for entry in kept], *outcomes_and_values, rows)


def of_series(
    entries: Sequence[Entry],
    outcomes: Iterable[Series],
    values: Mapping[str, Iterable[Series]],
    rows: Mapping[str, int],
) -> dict[str, Any]:
    """Return the data of the view. `outcomes`, `values`: of series.read, over these entries. `rows`: the places of the page's rows by cell."""
    places = {entry.id: place for place, entry in enumerate(entries)}
    return {
        "runs": [_run(entry) for entry in entries],
        "values": {
            name: [_series(rows, places, of_cell) for of_cell in of_cells]
            for name, of_cells in values.items()
        },
        "endings": [
            {
                "row": rows[step.cell],
                "run": places[step.after.entry.id],
                "before": step.before.ending.words,
                "after": step.after.ending.words,
                "differs": step.differs,
            }
            for of_cell in outcomes
            for step in of_cell.steps
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


def _series(rows: Mapping[str, int], places: Mapping[str, int], of_cell: Series) -> dict[str, Any]:
    """Return a series with its changes. A point is the place of its run, its value, the ends of its interval and its milliseconds."""
    known = of_cell.to_json()
    return {
        "row": rows[of_cell.cell],
        **{key: known[key] for key in ("conditions", "unit", "anchor", "follows")},
        "points": [[places[point["run"]], *map(short, (point["value"], *(point["interval"] or (None, None)), point["ms"]))] for point in known["points"]],
        "changes": [{"run": places[change["run"]], "ratio": change["ratio"], "differs": change["differs"]} for change in known["changes"]],
        "drift": known["drift"],
    }  # fmt: skip


VIEWS = (
    View("history", "History", history, f"results/history/ has fewer than two runs. Every run that changes a row adds one; {AGAIN}{checkout.run_command('results/report.html')}"),
    View("comparison", "Comparison", comparison, f"Nothing was compared. Compare with an earlier run, {AGAIN}vmfbench compare BEFORE/results results --format json=results/comparison.json"),
)  # fmt: skip
