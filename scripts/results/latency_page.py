"""The rows of models: results/latency.csv and latency.md, the results table with the hardware and versions that were used.

The same rows give the same page, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.config.rows import Matrix
from scripts.measure.timing.ratios import LEAST
from scripts.results import columns, imported, record, wording
from scripts.results.page_sections import STRONG, Section, Styled, as_markdown
from scripts.results.results_file import MODELS
from scripts.results.results_table import ModelRows, Table
from scripts.results.row import Column
from scripts.results.row_set import CPU, Content, RowSet
from scripts.results.screen import Screen
from scripts.run import outputs

INTERVALS = """\
Milliseconds of a call that nothing disturbed and, in brackets, the 99 % interval (docs/timing.md says how they are found).
**Bold**: the fastest of a model on a device, and every latency that cannot be told from it, because the interval of their
ratio contains 1. Nothing is bold where such an interval is wider than ±25 %, because it decides nothing. `unknown`: the interval is wider
than ±50 %. `?`: there is none. Rows of a model are timed in
turns, so ratios are known better than latencies: intervals of latencies may overlap where that of the ratio does not contain 1.
"""
NO_INTERVALS = """\
Milliseconds of a call that nothing disturbed (docs/timing.md). There are no intervals (`?`), as no row was timed in {least} generations:
how the rows compare is not known, and nothing is called the fastest.
"""
MEANS = """\
Geometric means of the speed-up, a number above 1 being faster, with 99 % intervals: of the errors of these measurements, not of
the choice of models. They are over the verified rows, or over as many rows as they say, if other ratios are not known to 50 %. A row that was not measured is in no
mean, so means of different rows do not compare.
"""


def content(records: Iterable[Mapping[str, Any]]) -> Content:
    """Return what is written of some records."""
    return Content(records, lambda checked: page(Table.of_records(checked)))


def page(table: Table) -> str:
    """Return the whole page as Markdown."""
    return "\n".join([wording.head("Latencies", table), as_markdown(sections(table))])


def sections(table: Table) -> list[Section]:
    """Return what is shown of some rows."""
    unknown, doubtful = wording.unknown(table), wording.doubtful(table)
    return [
        _latencies(table),
        Section("", note=f"{_upper_first(unknown)}." if unknown else ""),
        Section("", note=f"{_upper_first(doubtful)}:" if doubtful else "", lines=wording.doubts(table)),
        _means(table),
        Section("Leaks", lines=wording.leaks(table)),
        *background(table),
    ]  # fmt: skip


def background(table: Table) -> list[Section]:
    """Return which targets and baselines were not measured, and with what the others were."""
    provenance = table.provenance
    return [
        Section("Not measured", lines=[*map(wording.absent, table.absent)]),
        Section("Models", ("model", "options"), [*provenance.models.items()], folded=True),
        Section("Configuration", lines=provenance.configuration),
        Section("Measured with", lines=provenance.measured_with),
    ]


def _upper_first(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _latencies(table: Table) -> Section:
    lines = [
        [line.label, *(_cell(line, column, table) for column in table.columns)]
        for line in table.rows
    ]
    note = INTERVALS if table.has_intervals else NO_INTERVALS.format(least=LEAST)
    note += f"{wording.NOT_IN_MATRIX}: not in the matrix."
    head = ["model", *map(wording.path, table.columns)]
    return Section("", head, lines, range(1, len(head)), note)


def _cell(line: ModelRows, column: Column, table: Table) -> str:
    row = line.entries.get(column)
    if row is None:
        return wording.NOT_IN_MATRIX
    if row.timing is None:
        return row.why
    ends = row.timing.ends_ms
    shown = wording.milliseconds_of(row.timing, table)
    if not row.timing.is_unknown:
        within = map(wording.milliseconds, ends) if ends else [wording.NO_INTERVAL]
        shown += f" ({' to '.join(within)})"
    return Styled(shown, STRONG) if column in line.fastest else shown


def _means(table: Table) -> Section:
    head = ["of", *wording.means_head(table)]
    rows = [
        [wording.path(mean.column, mean.test), *wording.means(mean, table)] for mean in table.means
    ]
    return Section("Geometric means", head, rows, range(1, len(head)), MEANS)


def _of_matrix(matrix: Matrix, folder: Path) -> Content:
    if folder == CPU:
        return content(record.records(matrix.on_cpu()))
    return content(record.records(matrix, further=imported.rows()))


ROW_SET = RowSet(
    name="latency",
    jsonl=outputs.JSONL,
    about="One row for every IREE cell and every baseline cell, including failed ones. Baselines of other runtimes have columns such as `speedup_vs_openvino` too.",
    declared_in="scripts/results/columns.py",
    form=MODELS,
    columns=columns.COLUMNS,
    described=columns.FIELDS,
    content=_of_matrix,
    screen=lambda records: Screen(Table.of_records(records)),
)
