"""The rows of results/kernels.csv (those of models, with the section `kernel`), and what is shown of them: results/kernels.md and its plots,
the view of the report page, and the summary of a run. The same rows give the same files."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scripts.config import stages
from scripts.config.rows import Matrix
from scripts.core import checkout
from scripts.core.tensors import DTYPES, Signature, TensorType
from scripts.measure.timing.machine_limits import COMPUTE, MEMORY, PRODUCT, TRIAD, MachineLimits
from scripts.results import columns, speedups, wording
from scripts.results import record as of_model
from scripts.results.columns import FROM_1, INTEGER, NUMBER, OBJECT, POSITIVE, TEXT, Field, names
from scripts.results.page_sections import Chart, Line, Section, as_markdown
from scripts.results.results_file import Form
from scripts.results.results_table import ModelRows, Table
from scripts.results.row import Column, Row
from scripts.results.row_set import Content, RowSet
from scripts.results.screen import Printed
from scripts.run import outputs
from scripts.tools.kernels import kernels
from scripts.tools.kernels.kernels import BITS, Kernel
from scripts.tools.report.web.page_source import of_set

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OWN = (
    Field("kernel", OBJECT, "The kernel, the work of a call, and how fast it was done."),
    Field("kernel.name", TEXT, "Name of the kernel: its file in `models/kernels/`.", column="kernel"),
    Field("kernel.shape", TEXT, "Shape, in the order of the kernel's DIMENSIONS.", column="shape"),
    Field("kernel.memory_bytes", INTEGER, "Bytes that a call reads and writes, each tensor once, by the kernel's declarations.", unit="bytes", column="memory_bytes", checks=FROM_1),
    Field("kernel.flop", NUMBER, "Floating-point operations of a call, by the same declarations.", unit="FLOP", column="flop", checks=POSITIVE),
    Field("kernel.flop_per_byte", NUMBER, "`flop` / `memory_bytes`.", unit="FLOP/byte", column="flop_per_byte", checks=POSITIVE),
    Field("kernel.gb_per_s", NUMBER, "`memory_bytes` / latency, in 1e9 bytes per second.", unit="GB/s", column="gb_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.gb_per_s_low", NUMBER, "Lower end of its 99 % interval.", unit="GB/s", column="gb_per_s_low", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.gb_per_s_high", NUMBER, "Its upper end.", unit="GB/s", column="gb_per_s_high", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.gflop_per_s", NUMBER, "`flop` / latency.", unit="GFLOP/s", column="gflop_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.machine_gb_per_s", NUMBER, "[Bandwidth of the memory](kernels.md#what-the-machine-can-do) with as many threads.", unit="GB/s", column="machine_gb_per_s", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.bandwidth_share", NUMBER, "`gb_per_s` / `machine_gb_per_s`. Above 1 where caches hold what a kernel moves.", unit="ratio", column="bandwidth_share", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.limit_share", NUMBER, "The time that the device needs [at least](limits.md) for the FLOPs or the bytes / latency; small problems are compared with the caches.", unit="ratio", column="limit_share", nullable=True, varies=True, checks=POSITIVE),
    Field("kernel.limited_by", TEXT, "Which of the two takes longer.", column="limited_by", nullable=True, varies=True, checks=Literal[MEMORY, COMPUTE]),
    Field("kernel.no_limit_share", TEXT, "Why a share above 1 is not given.", column="no_limit_share", nullable=True, varies=True),
)  # fmt: skip
"""The section `kernel` of a line of results/kernels.jsonl."""

FIELDS = (*columns.FIELDS, *OWN)
"""Every value of a kernel's record."""

_NAMES = """
kernel shape model dtype runtime frontend target backend opt_level flags device device_name threads status stage reason detail
blocked_by remedy frontend_used verification_code max_abs_error rmse_vs_fp64 latency_ms latency_low_ms latency_high_ms
generations memory_bytes gb_per_s gb_per_s_low gb_per_s_high machine_gb_per_s bandwidth_share flop flop_per_byte gflop_per_s
limit_share limited_by no_limit_share speedup_vs_eager speedup_vs_eager_low speedup_vs_eager_high speedup_vs_inductor
speedup_vs_inductor_low speedup_vs_inductor_high verdict doubt compile_s first_call_ms dispatch_count torch_version
frontend_version torch_xla_version iree_version rewrites fingerprint stale log
"""
# Where latency.csv has a column of the same name, the kernel's counts.
_BY_NAME = {declared.column: declared for declared in (*columns.COLUMNS, *OWN)}

COLUMNS = tuple(_BY_NAME[name] for name in _NAMES.split())
"""The columns of results/kernels.csv, in order."""


Record = Mapping[str, Any]


class WrongTraffic(ValueError):
    """A kernel declares other tensors than its functions have. Names both."""


def records(
    matrix: Matrix, measured: Sequence[MachineLimits], root: Path = Path()
) -> list[dict[str, Any]]:
    """The records of all rows of the kernels' matrix. `measured`: the limits of its devices. Raises WrongTraffic."""
    declared = {
        name: kernels.read(Path(model.file).stem, checkout.ROOT)
        for name, model in matrix.models.items()
    }
    for name, kernel in declared.items():
        if signature := _signature(root, name):
            _require_traffic(kernel, matrix.models[name].options["shape"], signature)
    kernel_records = of_model.records(matrix, root)
    for each in kernel_records:
        each["kernel"] = section(each, declared[each["model"]["name"]], measured)
    return kernel_records


def section(
    record: dict[str, Any], kernel: Kernel, measured: Sequence[MachineLimits]
) -> dict[str, Any]:
    """The section `kernel` of a record. `measured`: the limits of all devices."""
    shape, dtype = record["model"]["options"]["shape"], record["experiment"]["dtype"]
    moved, flop = kernel.memory_bytes(shape, dtype), kernel.flop(shape)
    latency, of_device = record["latency"], speedups.limits_of_row(record, measured)
    values: dict[str, Any] = {
        **dict.fromkeys(names(OWN, "kernel")),
        "name": kernel.name,
        "shape": shape,
        "memory_bytes": moved,
        "flop": flop,
        "flop_per_byte": flop / moved,
        "machine_gb_per_s": of_device and of_device.gb_per_s,
    }
    if not latency:
        return values
    slow, fast = latency["high_ms"], latency["low_ms"]
    values |= {
        "gb_per_s": moved / latency["ms"] / 1e6,
        "gb_per_s_low": slow and moved / slow / 1e6,
        "gb_per_s_high": fast and moved / fast / 1e6,
        "gflop_per_s": flop / latency["ms"] / 1e6,
    }
    if of_device:
        values["bandwidth_share"] = values["gb_per_s"] / of_device.gb_per_s
        share = speedups.limit_share(of_device, flop, moved, dtype, latency)
        values |= {key: share[key] for key in ("limit_share", "limited_by", "no_limit_share")}
    return values


def _signature(root: Path, model: str) -> Signature | None:
    """The signature of a reference; None if there is none, because the stage failed or was damaged."""
    path = root / stages.STAGES["reference"].path(model, "signature.json")
    try:
        return Signature.read(path) if path.stat().st_size else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _require_traffic(kernel: Kernel, shape: str, signature: Signature) -> None:
    """Raise WrongTraffic if a tensor of the kernel has another size than declared.

    Inputs and weights are compared by name, results by their order.
    """
    declared = kernel.tensor_bytes(shape, signature.dtype)
    there = {_name(tensor): _bytes(tensor) for tensor in (*signature.inputs, *signature.parameters)}
    reads = {name: declared[name] for name in kernel.reads}
    if reads.keys() != there.keys():
        odd = sorted(reads.keys() ^ there.keys())[0]
        side = "no such input" if odd in reads else "is not declared"
        raise WrongTraffic(f"{kernel.file}: READS: {odd}: {side}")
    for name, size in reads.items():
        fits = size <= there[name] if name in kernel.partly_read else size == there[name]
        if not fits:
            raise WrongTraffic(
                f"{kernel.file}: READS: {name}: {size} bytes declared at {shape}, but the input has {there[name]}"
            )
    results = [_bytes(tensor) for tensor in signature.outputs]
    writes = [declared[name] for name in kernel.writes]
    if results != writes:
        raise WrongTraffic(
            f"{kernel.file}: WRITES: {writes} bytes declared at {shape}, but the results have {results}"
        )


def _name(kind: TensorType) -> str:
    """`x` of the path `[1]['x']` of a keyword input; the name of a weight."""
    return kind.name.rpartition("['")[2].removesuffix("']")


def _bytes(kind: TensorType) -> int:
    return math.prod(kind.shape) * BITS[DTYPES[kind.dtype][0]] // 8


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


def content(matrix: Matrix, folder: Path) -> Content:
    part = matrix.parts.get("kernels")
    if part is None or not part.models:
        raise ValueError(
            "the configuration selects no kernel; set kernels.select, or raise kernels.max_bytes"
        )
    limits = speedups.read_limits(part.devices())

    def write_plots(records: list[Record]) -> None:
        for name in dict.fromkeys(each["kernel"]["name"] for each in records):
            of_kernel = [each for each in records if each["kernel"]["name"] == name]
            write_plot(name, of_kernel, folder / "kernels")

    kernel_records = records(part, limits)
    return Content(kernel_records, lambda records: page(records, limits), write_plots)


ROW_SET = RowSet(
    name="kernels",
    jsonl=outputs.files_of("kernels")[2],
    about="One row for every kernel at every shape, on every lowering path and target, and under every baseline.\n`kernels.jsonl` has all sections of `results.jsonl`, and the section `kernel`.",
    declared_in="scripts/tools/kernels/rows.py",
    form=Form("results/kernels.csv", FIELDS),
    columns=COLUMNS,
    described=(*COLUMNS, OWN[0]),
    content=content,
    screen=lambda records: Printed(on_screen(records)),
)
VIEWS = (
    of_set(ROW_SET, "Kernels", "No kernels were measured", lambda records: sections(list(records))),
)
