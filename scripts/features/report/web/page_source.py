"""What the views of the page select from: the records, and what the stages of each row have left."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.matrix import stages, threads, training
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.stage import STATUS, Stage
from scripts.matrix.stages import STAGES
from scripts.records import speedups, stage_files
from scripts.records.results_table import Table
from scripts.records.row import Row
from scripts.supervise import outcome

Record = Mapping[str, Any]
AGAIN = "then make this page again: "
"""Of `View.missing`."""
Run = dict[str, Any]
"""A stage of a row that has an outcome: name, cell, status, seconds, peak in MiB and log."""


@dataclass(frozen=True)
class Source:
    """`results`: the folder results/. `records`: those of results.jsonl."""

    results: Path
    records: Sequence[Record]

    @property
    def root(self) -> Path:
        """The folder to which paths in records are relative."""
        return self.results.parent

    @functools.cached_property
    def rows(self) -> list[Row]:
        return [Row.of(record) for record in self.records]

    @functools.cached_property
    def table(self) -> Table:
        return Table.of(self.records)

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
            "log": ended.log,
        }


def _stages(row: Row, record: Record) -> Iterator[tuple[Stage, Cell]]:
    """Yield the stages that a row may have had, each with its cell; last the one that times it."""
    yield from of_row(row.cell)
    device = threads.named(speedups.device_of(record)[0], row.cell.threads)
    test = row.cell.test
    yield STAGES["time"], Cell.of(Kind.GROUP, model=row.model, device=device, test=test)


def of_row(row: Cell) -> Iterator[tuple[Stage, Cell]]:
    """Yield the stages of its own that a row may have had, in order, each with its cell."""
    names = [stage.name for stage in stages.before(stages.LAST[row.kind])]
    if row.kind is Kind.IREE:
        names.insert(names.index("compile") + 1, "remedy")
    if row.test == training.TRAIN:
        names.insert(names.index("reference") + 1, "gradients")
    for name in names:
        yield STAGES[name], row.to(STAGES[name].kind)


@dataclass(frozen=True)
class View:
    """A view of the page.

    `name`: that of its JavaScript file, unless `script` is. `select` returns the data of the view as JSON, or None if there is none; then
    the page shows `missing`, which says how to make it, or has no such view.
    """

    name: str
    title: str
    select: Callable[[Source], Any]
    missing: str = ""
    script: str = ""
