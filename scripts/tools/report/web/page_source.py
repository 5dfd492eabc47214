"""What the page shows: the records, what the stages of each row have left, the rows with what filters and charts need, and the details
of a row when it is opened.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.cell import TRAIN, Cell, EntryName, Kind
from scripts.config.stages import STAGES, STATUS, Stage
from scripts.core import checkout
from scripts.results import page_sections, speedups, stage_files
from scripts.results.columns import COLUMNS, TEXT, Field
from scripts.results.page_sections import Section
from scripts.results.results_table import BASES, ModelRows, Table, over
from scripts.results.row import ENDINGS, Column, Row
from scripts.results.row_set import RowSet, Stored
from scripts.supervise import outcome

Record = Mapping[str, Any]
AGAIN = ", then vmfbench report"
"""The end of `View.missing`, after the command that makes what is missing."""
Run = dict[str, Any]
"""A stage of a row that has an outcome: name, cell, status, seconds and peak in MiB."""


@dataclass(frozen=True)
class Source:
    """`results`: the folder results/, which a page over the history of several has not (NO_RESULTS). `records`: those of results.jsonl, or the
    newest ones. `kept`: the runs that were kept, in place of those in the folder. `columns`: further columns with their values."""

    results: Path
    records: Sequence[Record]
    kept: Sequence[Any] = ()
    columns: Sequence[tuple[Field, Sequence[Any]]] = ()

    @property
    def root(self) -> Path:
        """The folder to which paths in records are relative."""
        return self.results.parent

    @functools.cached_property
    def rows(self) -> list[Row]:
        return [Row.of_record(record) for record in self.records]

    @functools.cached_property
    def table(self) -> Table:
        return Table.of_records(self.records)

    @functools.cached_property
    def stages(self) -> list[list[Run]]:
        """The stages of each record. A stage that several rows share is read once."""
        run = functools.cache(self._run)
        return [
            [ran for stage, cell in _stages(row, record) if (ran := run(stage.name, cell))]
            for row, record in zip(self.rows, self.records, strict=True)
        ]

    def _run(self, stage: str, cell: Cell) -> Run | None:
        path = self.root / STAGES[stage].path(cell, STATUS)
        if not path.is_file():
            return None
        ended, used = outcome.read_or_damaged(path), stage_files.usage(path)
        return {
            "stage": stage,
            "cell": str(cell),
            "status": ended.status,
            "seconds": used.seconds if used else None,
            "mb": used.max_rss_mb if used else None,
        }


def _stages(row: Row, record: Record) -> Iterator[tuple[Stage, Cell]]:
    """Yield the stages that a row may have had, each with its cell; last the one that times it."""
    yield from of_row(row.cell)
    device = str(EntryName(speedups.device_of(record)[0], threads=row.cell.threads))
    test = row.cell.test
    yield STAGES["time"], Cell.of_kind(Kind.GROUP, model=row.model, device=device, test=test)


def of_row(row: Cell) -> Iterator[tuple[Stage, Cell]]:
    """Yield the stages of its own that a row may have had, in order, each with its cell."""
    further = {"compile": "remedy"} | ({"reference": "gradients"} if row.test == TRAIN else {})
    for stage, cell in stages.of_row(row):
        yield stage, cell
        if name := further.get(stage.name):
            yield STAGES[name], row.to(STAGES[name].kind)


@dataclass(frozen=True)
class View:
    """A view of the page. `select` returns its sections, or the JSON that its own `script` draws; None if there is nothing to show: then the page
    shows `missing`, which says how to make it. `filtered`: whether the filters of rows apply to it.
    """

    name: str
    title: str
    select: Callable[[Source], Any]
    missing: str = ""
    script: str = "sections"
    filtered: bool = True

    def data(self, source: Source) -> Any:
        """Return what the page's script draws, as JSON."""
        selected = self.select(source)
        if self.script != "sections" or selected is None:
            return selected
        return [page_sections.to_json(section) for section in page_sections.shown(selected)]


def of_set(
    row_set: RowSet,
    title: str,
    missing: str,
    sections: Callable[[Iterable[Record]], Sequence[Section]],
) -> View:
    """The view of a set of results beside that of models. `missing`: that it is not there. `sections`: what is shown of its records."""

    def select(source: Source) -> Sequence[Section] | None:
        jsonl = source.root / row_set.jsonl
        return (jsonl.is_file() and sections(Stored(jsonl))) or None

    again = f"{missing}. To make them: {checkout.run_command(row_set.form.csv)}{AGAIN}"
    return View(row_set.name, title, select, again, filtered=False)


NO_RESULTS = Path("/nonexistent/results")
FAILED_CHARS = 5_000
"""How much of the end of the log of a failure is kept, in characters."""

_OF_ROWS = (
    (Field("", TEXT, "Name of the cell.", column="cell"), lambda row: str(row.cell)),
    (Field("", TEXT, "Lowering path (frontend), or the name of the baseline.", column="path"), lambda row: row.column.name),
    (Field("", TEXT, "Target, or `baseline`.", column="on"), lambda row: row.column.target or "baseline"),
    (Field("", TEXT, "How the row ended.", column="ending"), lambda row: row.ending),
)  # fmt: skip
"""Columns that latency.csv does not have, with the value of a row."""


def table_of_rows(source: Source) -> dict[str, Any]:
    """Return the rows by column.

    `columns` describes the columns. `values` has the values of each, in the order of the records. `over` has, for each row
    and each of results_table.BASES, the logarithm of the speed-up, its scale and its degrees of freedom (ratios.Difference);
    only the logarithm without an interval; None without a speed-up.
    """
    lines = {(line.model, line.test): line for line in source.table.rows}
    own = [(field, [value(row) for row in source.rows]) for field, value in _OF_ROWS]
    of_csv = [(field, [short(field.value_in(record)) for record in source.records]) for field in COLUMNS]  # fmt: skip
    every = [*own, *source.columns, *of_csv]
    return {
        "columns": [
            {"name": field.column, "kind": field.kind.words, "unit": field.unit, "about": field.description}
            for field, _ in every
        ],
        "values": {field.column: values for field, values in every},
        "over": [_over(lines[row.model, row.test], row.column) for row in source.rows],
        "endings": ENDINGS,
    }  # fmt: skip


def _over(line: ModelRows, column: Column) -> list[list[float] | None]:
    estimates: list[list[float] | None] = []
    for base in BASES:
        known = over(line, column, base)
        if known:
            estimates.append([known.value, known.scale, known.df])
        else:
            estimates.append(None if known is None else [])
    return estimates


def short(value: Any) -> Any:
    """Return a number with seven significant digits, as in the CSV."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def end_of(results: Path, log: str | None, most: int) -> str:
    """Return at most `most` characters of the end of a log below `results`, as whole lines; "" if it cannot be read, or is elsewhere: the
    records of others could name any file of this machine."""
    path = (results.parent / (log or "")).resolve()
    if not (path.is_relative_to(results.resolve()) and path.is_file()):
        return ""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(0, size - 4 * most))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    if len(text) <= most:
        return text
    end = text[-most:]
    return end[end.find("\n") + 1 :]
