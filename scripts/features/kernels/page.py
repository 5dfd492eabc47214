"""Write results/kernels.md and the summary of a run: means, and GB/s of every kernel. The same rows give the same
page."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from scripts.records import markdown, screen, wording
from scripts.records.markdown import text
from scripts.records.results_table import ModelRows, Table
from scripts.records.row import Column, Row
from scripts.timing.machine_limits import PRODUCT, TRIAD, MachineLimits

Record = Mapping[str, Any]

RATES = """\
1e9 bytes per second: the bytes that a call has to read and write, divided by its latency. In brackets the 99 % interval.
"""
MEANS = """\
Geometric means over the shapes of all kernels, with 99 % intervals of the errors of these measurements. *Verified*: rows
with the right results, of all rows; a row without a latency is in no mean, so means of different rows do not compare.
*Bandwidth*: the share of the machine's bandwidth that is reached, as geometric mean and at most.
"""


@dataclass(frozen=True)
class Kernels:
    """The rows of all kernels or of one. `records`: by model and column. `shares`: by column, the shares of the
    machine's bandwidth that its rows reach; rows on a device whose bandwidth is not known have none."""

    table: Table
    records: Mapping[tuple[str, Column], Record]
    shares: Mapping[Column, Sequence[float]]

    @classmethod
    def of_records(cls, records: Iterable[Record]) -> Kernels:
        """Return the kernels of some records."""
        by_place: dict[tuple[str, Column], Record] = {}
        shares: dict[Column, list[float]] = {}
        for record in records:
            row, share = Row.of_record(record), record["kernel"]["bandwidth_share"]
            by_place[row.model, row.column] = record
            if row.timing and share is not None:
                shares.setdefault(row.column, []).append(share)
        return cls(Table.of_records(by_place.values()), by_place, shares)

    def means(self) -> Iterator[list[str]]:
        """Yield, for each column: its name, its verified rows of all, its mean speed-ups over eager and inductor,
        and its share of the bandwidth: `41 % (at most 78 %)`."""
        means = {mean.column: mean for mean in self.table.means}
        for column in self.table.columns:
            rows = [line.entries[column] for line in self.table.rows if column in line.entries]
            timed = sum(row.timing is not None for row in rows)
            mean = means.get(column)
            over = wording.means(mean, self.table)[1:] if mean else [""] * len(self.table.bases)
            share = ""
            if shares := self.shares.get(column):
                reached = statistics.geometric_mean(shares)
                share = f"{reached:.0%} (at most {max(shares):.0%})".replace("%", " %")
            yield [wording.path(column), f"{timed} of {len(rows)}", *over, share]


def page(records: Sequence[Record], limits: Sequence[MachineLimits]) -> str:
    """Return the whole page as Markdown."""
    kernels = Kernels.of_records(records)
    provenance = kernels.table.provenance
    names = dict.fromkeys(record["kernel"]["name"] for record in records)
    bodies = {
        "Geometric means": f"{MEANS}\n{_means(kernels)}",
        f"Doubts ({wording.DOUBTFUL})": markdown.bullets(wording.doubts(kernels.table)),
        "What the machine can do": "".join(_limits(limits)),
        "Not measured": markdown.bullets(map(wording.absent, kernels.table.absent)),
        "Measured with": markdown.bullets([*provenance.where, *provenance.with_what]),
    }
    parts = [wording.head("Kernels", kernels.table), *markdown.sections(bodies)]
    parts.append(f"## GB/s\n\n{RATES}")
    for name in names:
        own = Kernels.of_records(record for record in records if record["kernel"]["name"] == name)
        parts.append(f"### {name}\n\n![GB/s of {name}](kernels/{name}.svg)\n\n{_rates(own)}")
    return "\n".join(parts)


def _means(kernels: Kernels) -> str:
    head = ["of", *wording.means_head(kernels.table), "bandwidth"]
    rows = [[text(name), *cells] for name, *cells in kernels.means()]
    return markdown.table(head, rows, right=range(1, len(head)))


def _rates(own: Kernels) -> str:
    """The GB/s of one kernel: a line for each shape and dtype, and the means."""
    columns = own.table.columns
    head = ["shape", *(text(wording.path(column)) for column in columns)]
    lines = []
    for line in own.table.rows:
        first = own.records[line.model, next(iter(line.entries))]
        shape = f"{first['kernel']['shape']} {first['experiment']['dtype']}"
        lines.append([text(shape), *(_cell(own, line, column) for column in columns)])
    shown = markdown.table(head, lines, right=range(1, len(head)))
    return shown + (f"\n{_means(own)}" if own.table.means else "")


def _cell(own: Kernels, line: ModelRows, column: Column) -> str:
    row = line.entries.get(column)
    if row is None:
        return wording.NOT_IN_MATRIX
    if row.timing is None:
        return text(row.why)
    rate = own.records[row.model, column]["kernel"]
    low, high = rate["gb_per_s_low"], rate["gb_per_s_high"]
    ends = "" if low is None else f" ({low:.3g} to {high:.3g})"
    return f"{wording.DOUBTFUL if row.timing.doubt else ''}{rate['gb_per_s']:.3g}{ends}"


def _limits(limits: Sequence[MachineLimits]) -> Iterator[str]:
    for device in limits:
        threads = f", {device.threads} threads" if device.threads else ""
        yield f"{text(device.device_name)}{threads}: {device.gb_per_s:.3g} GB/s from memory.\n\n"
        head = ["program", "dtype", "through", "size", "fastest call"]
        units = {TRIAD: "GB/s", PRODUCT: "GFLOP/s"}
        rows = []
        for s in device.samples:
            size = f"{s.size / 1e6:.3g} MB" if s.what == TRIAD else "×".join([f"{s.size}"] * 3)
            rows.append([s.what, s.dtype, s.through, size, f"{s.rate:.3g} {units[s.what]}"])
        yield markdown.table(head, rows, right=(3, 4))
        if device.doubts:
            yield "\n" + markdown.bullets(device.doubts)


@dataclass(frozen=True)
class Screen:
    """The geometric means over all kernels, for each runtime and lowering path, at the end of a run."""

    kernels: Kernels

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self.kernels.table
        yield from screen.heading("Kernels: geometric means", table)
        shown = screen.plain_table("of", *wording.means_head(table), "share of the bandwidth")
        for row in self.kernels.means():
            shown.add_row(*row)
        yield shown
        for absent in table.absent:
            yield Text(wording.absent(absent))
