"""The views of the report page that show comparisons and the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scripts.core import atomic
from scripts.results.page_sections import Chart, Line, Section
from scripts.tools.compare import series, store
from scripts.tools.compare.series import LATENCY, Series
from scripts.tools.compare.store import Damaged, Entry
from scripts.tools.report.web.page_source import AGAIN, Source, View, short

MOST_RUNS = 100
"""Runs of the history, the newest ones."""
WITH_SERIES = {
    LATENCY: "latency",
    "vmfb_bytes": "size of the module",
    "compile_s": "time of the compilation",
}
"""Columns whose history the page has, in words."""
SERIES = """\
One point per measurement, by run. Vertical lines: 99 % intervals. Dashed: a change. A latency is known by how many times as fast as eager it is, which was
timed in the same turns; blue ground: faster, orange: slower, grey: within 5 %.
"""


def comparison(source: Source) -> list[Section] | None:
    """Return what `vmfbench compare --format json=results/comparison.json` has found. Raises ValueError or KeyError for a file of
    another form."""
    path = source.results / "comparison.json"
    if not path.is_file():
        return None
    saved = atomic.read_json(path)
    ratios = [
        Line(each["cell"], each["verdict"], [(0, each["ratio"], each["low"], each["high"])])
        for each in saved["latencies"]
    ]
    chart = Chart("Latency after / before", "latency after / before", ratios, dots=True)
    whole = Section(
        f"{saved['before']} → {saved['after']}",
        lines=saved["summary"],
        charts=[chart] if ratios else [],
    )
    return [whole, *(Section(**table) for table in saved["tables"])]


def history(source: Source) -> list[Section] | None:
    """Return what changed in the cells of this page, their series, and the runs; None if there are no two runs."""
    kept = source.kept or store.read(source.results / store.FOLDER.name)[0][-MOST_RUNS:]
    if len(kept) < 2:
        return None
    rows = {str(row.cell): index for index, row in enumerate(source.rows)}
    columns = [series.value_field(name) for name in WITH_SERIES]
    try:
        outcomes, values = series.read(kept, columns, rows.__contains__)
    except Damaged:  # `vmfbench history` names the file
        return None
    entries = [each.entry for each in kept]

    def with_places(section: Section) -> Section:
        return replace(section, places=[rows[cell] for cell, *_ in section.rows])

    return [
        *(
            with_places(series.table_of_changes(f"the {words}", name, values[name]))
            for name, words in WITH_SERIES.items()
        ),
        with_places(
            series.table_of_endings([step for of_cell in outcomes for step in of_cell.steps])
        ),
        *(_series(name, values[name], rows, entries) for name in WITH_SERIES),
        series.table_of_runs(entries),
    ]


def _series(
    name: str, of_cells: Sequence[Series], rows: Mapping[str, int], entries: Sequence[Entry]
) -> Section:
    """A chart per series of several points, those with findings first."""
    several = [each for each in of_cells if len(each.points) > 1]
    several.sort(key=lambda each: -2 * len(each.steps) - bool(each.drift))
    charts = [_chart(each, rows[each.cell], entries) for each in several]
    title = f"Series of the {WITH_SERIES[name]}"
    return Section(title, note=SERIES if charts else "", charts=charts, folded=name != LATENCY)


def _chart(of_cell: Series, row: int, entries: Sequence[Entry]) -> Chart:
    places = {entry.id: place for place, entry in enumerate(entries)}
    points = [
        (places[point.entry.id], *map(short, (value, *(point.ends or (None, None)))))
        for point, value in zip(of_cell.points, of_cell.values, strict=True)
    ]
    than = f"times as fast as {of_cell.anchor}" if of_cell.anchor else ""
    follows = f"after {of_cell.follows}" if of_cell.follows else ""
    return Chart(
        ", ".join(filter(None, (of_cell.cell, than, follows))),
        "times as fast" if of_cell.anchor else of_cell.unit,
        [Line(of_cell.cell, "", points, row)],
        "run",
        [series.when(entry.at)[5:10] for entry in entries],
        marks=[(places[step.after.entry.id] - 0.5, "") for step in of_cell.steps],
        bands=bool(of_cell.anchor),
    )


VIEWS = (
    View("history", "History", history, f"results/history/ has fewer than two runs. Every run that changes a row adds one{AGAIN}"),
    View("comparison", "Comparison", comparison, f"Nothing was compared. To compare with an earlier run: vmfbench compare BEFORE/results results --format json=results/comparison.json{AGAIN}", filtered=False),
)  # fmt: skip
