"""What is shown of kernels: results/kernels.md and its plots, the view of the report page, and the summary of a run. The same rows
give the same files."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.measure.timing.machine_limits import PRODUCT, TRIAD, MachineLimits
from scripts.results import wording
from scripts.results.page_sections import Chart, Line, Section, as_markdown
from scripts.results.results_table import ModelRows, Table
from scripts.results.row import Column, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Record = Mapping[str, Any]

PLOT = "![GB/s of {name}](kernels/{name}.svg)"
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
    table = Table.of_records(records)
    return "\n".join([wording.head("Kernels", table), as_markdown(sections(records, limits, PLOT))])


def sections(
    records: Sequence[Record], limits: Sequence[MachineLimits] = (), plot: str = ""
) -> list[Section]:
    """Return what is shown of some records. `plot`: the Markdown of the plot of a kernel."""
    kernels = Kernels.of_records(records)
    of_kernel: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        of_kernel[record["kernel"]["name"]].append(record)
    return [
        _means("Geometric means", kernels, MEANS),
        Section(f"Doubts ({wording.DOUBTFUL})", lines=wording.doubts(kernels.table)),
        Section("What the machine can do", parts=[*map(_limits, limits)]),
        Section("Not measured", lines=[*map(wording.absent, kernels.table.absent)]),
        Section("Measured with", lines=kernels.table.provenance.measured_with),
        Section(
            *("GB/s", (), (), (), RATES),
            parts=[_rates(name, of_name, plot.format(name=name)) for name, of_name in of_kernel.items()],
        ),
    ]  # fmt: skip


def _means(title: str, kernels: Kernels, note: str = "") -> Section:
    head = ["of", *wording.means_head(kernels.table), "bandwidth"]
    return Section(title, head, [*kernels.means()], range(1, len(head)), note)


def _rates(name: str, records: Sequence[Record], note: str) -> Section:
    """The GB/s of one kernel: a line for each shape and dtype, and the means."""
    own = Kernels.of_records(records)
    columns = own.table.columns
    lines = []
    for line in own.table.rows:
        first = own.records[line.model, next(iter(line.entries))]
        shape = f"{first['kernel']['shape']} {first['experiment']['dtype']}"
        lines.append([shape, *(_cell(own, line, column) for column in columns)])
    head = ["shape", *map(wording.path, columns)]
    means = [_means("", own)] if own.table.means else []
    return Section(
        name, head, lines, range(1, len(head)), note, parts=means, charts=charts(records)
    )


def charts(records: Sequence[Record]) -> list[Chart]:
    """Return the GB/s of a kernel by shape, a chart for each dtype and device; rows that a remedy compiled by another lowering path are left out."""
    panels: dict[str, dict[Column, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        row, run = Row.of_record(record), record["run"]
        if row.timing:
            threads = f"{run['threads']} threads" if run["threads"] else ""
            named = (record["experiment"]["dtype"], run["device_name"], threads)
            panels[", ".join(filter(None, named))][row.column].append(record)
    drawn = []
    for title, by_column in panels.items():
        shapes = list(dict.fromkeys(r["kernel"]["shape"] for rows in by_column.values() for r in rows))  # fmt: skip
        lines = [
            Line(wording.path(column), wording.path(column), [_point(shapes, r["kernel"]) for r in rows])
            for column, rows in by_column.items()
        ]  # fmt: skip
        rule = next(iter(by_column.values()))[0]["kernel"].get("machine_gb_per_s")
        drawn.append(Chart(title, "GB/s", lines, ticks=shapes, rule=rule))
    return drawn


def _point(shapes: Sequence[str], rate: Mapping[str, Any]) -> tuple[float, float, Any, Any]:
    ends = rate.get("gb_per_s_low"), rate.get("gb_per_s_high")
    return shapes.index(rate["shape"]), rate["gb_per_s"], *ends


def _cell(own: Kernels, line: ModelRows, column: Column) -> str:
    row = line.entries.get(column)
    if row is None:
        return wording.NOT_IN_MATRIX
    if row.timing is None:
        return row.why
    rate = own.records[row.model, column]["kernel"]
    low, high = rate["gb_per_s_low"], rate["gb_per_s_high"]
    ends = "" if low is None else f" ({low:.3g} to {high:.3g})"
    return f"{wording.DOUBTFUL if row.timing.doubt else ''}{rate['gb_per_s']:.3g}{ends}"


def _limits(device: MachineLimits) -> Section:
    threads = f", {device.threads} threads" if device.threads else ""
    units = {TRIAD: "GB/s", PRODUCT: "GFLOP/s"}
    rows = []
    for s in device.samples:
        size = f"{s.size / 1e6:.3g} MB" if s.what == TRIAD else "×".join([f"{s.size}"] * 3)
        rows.append([s.what, s.dtype, s.through, size, f"{s.rate:.3g} {units[s.what]}"])
    head = ["program", "dtype", "through", "size", "fastest call"]
    title = f"{device.device_name}{threads}: {device.gb_per_s:.3g} GB/s from memory"
    return Section(title, head, rows, (3, 4), parts=[Section("", lines=device.doubts)])


def on_screen(records: Iterable[Record]) -> list[Section]:
    """Return the geometric means over all kernels, for each runtime and lowering path, at the end of a run."""
    kernels = Kernels.of_records(records)
    table = kernels.table
    return [
        Section("Kernels", lines=[wording.title(table), "; ".join(table.provenance.measured_with)]),
        _means("Geometric means", kernels),
        Section("", lines=[*map(wording.absent, table.absent)]),
    ]


PLOT_STYLE = {
    "svg.hashsalt": "vmfbench",  # the same plot is the same file
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
}
PLOT_INCHES = 8.0, 4.5
"""Width and height of a chart in a plot."""
MARKERS = "osD^vP*X"


def write_plot(kernel: str, records: Sequence[Record], folder: Path) -> None:
    """Write <folder>/<kernel>.svg, the charts of a kernel below each other."""
    import matplotlib  # slow
    from matplotlib.figure import Figure

    drawn = charts(records) or [Chart("nothing was measured", "", ())]
    width, height = PLOT_INCHES
    with matplotlib.rc_context(PLOT_STYLE):
        figure = Figure(figsize=(width, height * len(drawn)), layout="constrained")
        for axes, chart in zip(figure.subplots(len(drawn), squeeze=False).flat, drawn, strict=True):
            axes.set_title(f"{kernel}: {chart.title}")
            _draw(axes, chart)
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"{kernel}.svg", metadata={"Date": None})


def _draw(axes: Axes, chart: Chart) -> None:
    """Draw a line with intervals for each runtime, and the machine's bandwidth."""
    if not chart.lines:
        axes.set_axis_off()
        return
    for number, line in enumerate(chart.lines):
        # Beside each other, so that intervals do not cover each other.
        shift = 0.05 * (number - (len(chart.lines) - 1) / 2)
        ends = [(y if low is None else low, y if high is None else high) for _, y, low, high in line.points]  # fmt: skip
        rates = [y for _, y, _, _ in line.points]
        axes.errorbar(
            [x + shift for x, *_ in line.points],
            rates,
            yerr=[
                [max(0.0, y - low) for y, (low, _) in zip(rates, ends, strict=True)],
                [max(0.0, high - y) for y, (_, high) in zip(rates, ends, strict=True)],
            ],
            label=line.name,
            marker=MARKERS[number % len(MARKERS)],
            capsize=2,
            linewidth=1,
            elinewidth=0.7,
        )
    if chart.rule:
        label = f"bandwidth of the machine: {chart.rule:.3g} {chart.y}"
        axes.axhline(chart.rule, color="black", linestyle="--", linewidth=1, label=label)
    axes.set_xticks(range(len(chart.ticks)), chart.ticks, rotation=30, ha="right")
    axes.set_xlim(-0.5, len(chart.ticks) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(chart.y)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
