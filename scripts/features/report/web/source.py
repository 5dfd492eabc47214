"""What the views of the page select from: the records, and the folder with the files of the stages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.features.report.web import stage_runs
from scripts.features.report.web.stage_runs import Run
from scripts.records.results_table import Table

Record = Mapping[str, Any]


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
    def table(self) -> Table:
        """The results table of the records."""
        return Table.of(self.records)

    @functools.cached_property
    def stages(self) -> list[list[Run]]:
        """The stages of each record."""
        return stage_runs.read(self.root, self.records)


@dataclass(frozen=True)
class View:
    """A view of the page.

    `name`: that of its Python module and of its JavaScript file beside it. `select` returns the
    data of the view as JSON, or None if there is none; then the page shows `missing`, which says
    how to make it.
    """

    name: str
    title: str
    select: Callable[[Source], Any]
    missing: str = ""
