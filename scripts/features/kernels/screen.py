"""Print the kernels' means at the end of a run."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from scripts.features.kernels.page import mean_rows
from scripts.features.kernels.table import Kernels
from scripts.records import wording
from scripts.records.screen import plain_table


@dataclass(frozen=True)
class Screen:
    """The geometric means over all kernels, for each runtime and lowering path."""

    kernels: Kernels

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self.kernels.table
        yield Text("Kernels: geometric means", style="bold")
        yield Text(wording.title(table), style="dim")
        yield Text("; ".join((*table.provenance.where, *table.provenance.with_what)), style="dim")
        yield Text()
        shown = plain_table()
        shown.add_column("of")
        bases = [f"over {wording.BASE_NAMES[n]}" for n in table.bases]
        for heading in ("verified", *bases, "share of the bandwidth"):
            shown.add_column(heading, justify="right")
        for row in mean_rows(table, self.kernels.shares):
            shown.add_row(*row)
        yield shown
        for one in table.absent:
            yield Text(wording.absent(one))
