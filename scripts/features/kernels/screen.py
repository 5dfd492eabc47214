"""Print the kernels' means at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from scripts.features.kernels.page import mean_rows
from scripts.features.kernels.table import Kernels
from scripts.records import summary as records_summary
from scripts.records import wording
from scripts.records.screen import plain_table
from scripts.run import outputs


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


def summary(since: float) -> Iterator[RenderableType]:
    """Yield the summary of a run that wrote results/kernels.csv after `since`."""
    files = outputs.files_of("kernels")
    if (rows := outputs.written_rows(since, files[0])) is not None:
        table = Kernels.of(list(records_summary.records(files[2])))
        yield from records_summary.of_table(Screen(table), files, rows)
