"""The rows of models: results/latency.csv and latency.md, the results table with the hardware and versions that were used.

The same rows give the same page, byte for byte.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from scripts.matrix.matrix import Matrix
from scripts.records import columns, imported, markdown, record, wording
from scripts.records.markdown import text
from scripts.records.results_table import ModelRows, Table
from scripts.records.row import Column
from scripts.records.row_set import Content, RowSet
from scripts.records.screen import Screen
from scripts.run import outputs
from scripts.timing.ratios import LEAST

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
    provenance = table.provenance
    models = ([text(name), text(options)] for name, options in provenance.models.items())
    bodies = {
        "Geometric means": _means(table),
        "Leaks": markdown.bullets(wording.leaks(table)),
        "Not measured": markdown.bullets(map(wording.absent, table.absent)),
        "Models": markdown.table(["model", "options"], models),
        # An entry has several variants if its options differ between models.
        "Configuration": "".join(
            f"- {kind}: {text(name)}: {text('; '.join(variants))}\n"
            for kind, entries in provenance.entries.items()
            for name, variants in entries.items()
        ),
        "Measured with": markdown.bullets([*provenance.where, *provenance.with_what]),
    }
    parts = [wording.head("Latencies", table), _latencies(table)]
    if unknown := wording.unknown(table):
        parts.append(f"{_upper_first(unknown)}.\n")
    if doubtful := wording.doubtful(table):
        parts.append(f"{_upper_first(doubtful)}:\n\n{markdown.bullets(wording.doubts(table))}")
    return "\n".join([*parts, *markdown.sections(bodies)])


def _upper_first(sentence: str) -> str:
    """Return a sentence with a capital letter at its start."""
    return sentence[:1].upper() + sentence[1:]


def _latencies(table: Table) -> str:
    head = ["model", *(text(wording.path(column)) for column in table.columns)]
    lines = [
        [text(line.label), *(_cell(line, column, table) for column in table.columns)]
        for line in table.rows
    ]
    shown = markdown.table(head, lines, right=range(1, len(head)))
    said = INTERVALS if table.has_intervals else NO_INTERVALS.format(least=LEAST)
    return f"{said}{wording.NOT_IN_MATRIX}: not in the matrix.\n\n{shown}"


def _cell(line: ModelRows, column: Column, table: Table) -> str:
    row = line.entries.get(column)
    if row is None:
        return wording.NOT_IN_MATRIX
    if row.timing is None:
        return text(row.why)
    ends = row.timing.ends_ms
    shown = wording.milliseconds_of(row.timing, table)
    if not row.timing.is_unknown:
        within = map(wording.milliseconds, ends) if ends else [wording.NO_INTERVAL]
        shown += f" ({' to '.join(within)})"
    return f"**{shown}**" if column in line.fastest else shown


def _means(table: Table) -> str:
    if not table.means:
        return ""
    head = ["of", *wording.means_head(table)]
    rows = [
        [text(wording.path(mean.column, mean.test)), *wording.means(mean, table)]
        for mean in table.means
    ]
    return f"{MEANS}\n{markdown.table(head, rows, right=range(1, len(head)))}"


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cpu", action="store_true", help="only the rows that run on the CPU")


def _of_matrix(matrix: Matrix, args: argparse.Namespace) -> Content:
    if args.cpu:
        return content(record.records(matrix.on_cpu()))
    return content(record.records(matrix, further=imported.rows()))


ROW_SET = RowSet(
    name="latency",
    jsonl=outputs.JSONL,
    about="One row for every IREE cell and every baseline cell, including failed ones. Baselines of other runtimes have columns such as `speedup_vs_openvino` too.",
    declared_in="scripts/records/columns.py",
    fields=columns.FIELDS,
    columns=columns.COLUMNS,
    described=columns.FIELDS,
    content=_of_matrix,
    add_options=_add_options,
    screen=lambda records: Screen(Table.of_records(records)),
)
