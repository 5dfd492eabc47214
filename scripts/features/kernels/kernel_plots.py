"""Plot the GB/s of a kernel by shape and runtime, with the bandwidth of the machine as a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.records import wording
from scripts.records.row import Column, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 8.0, 4.5
"""Size of one panel, in inches."""
DPI = 100
MARKERS = "osD^vP*X"
STYLE = {
    "svg.hashsalt": "vmfbench",  # the same plot is the same file
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
}

Kernel = Mapping[str, Any]
"""The section `kernel` of a record."""


def write(kernel: str, records: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write <folder>/<kernel>.svg and .png: one panel for each dtype and device. The same records give the same files.

    Rows that a remedy compiled by another lowering path are left out.
    """
    import matplotlib

    panels: dict[str, list[tuple[Column, Kernel]]] = {}
    for record in records:
        row, run = Row.of_record(record), record["run"]
        if row.timing:
            title = f"{kernel}, {record['experiment']['dtype']}: {run['device_name']}"
            title += f", {run['threads']} threads" if run["threads"] else ""
            panels.setdefault(title, []).append((row.column, record["kernel"]))
    with matplotlib.rc_context(STYLE):
        figure = _figure(kernel, panels)
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"{kernel}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{kernel}.png", dpi=DPI, metadata={"Software": None})


def _figure(kernel: str, panels: Mapping[str, Sequence[tuple[Column, Kernel]]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT * max(1, len(panels))), layout="constrained")
    axes = figure.subplots(max(1, len(panels)), squeeze=False)[:, 0]
    for place, (title, rows) in zip(axes, panels.items(), strict=False):
        _draw(place, title, rows)
    if not panels:
        axes[0].set_title(f"{kernel}: nothing was measured")
        axes[0].set_axis_off()
    return figure


def _draw(axes: Axes, title: str, rows: Sequence[tuple[Column, Kernel]]) -> None:
    """One panel: a line with intervals for each runtime, and the machine's bandwidth."""
    shapes = list(dict.fromkeys(kernel["shape"] for _, kernel in rows))
    lines: dict[Column, dict[int, Kernel]] = {}
    for column, kernel in rows:
        lines.setdefault(column, {})[shapes.index(kernel["shape"])] = kernel
    in_order = sorted(lines.items(), key=lambda line: bool(line[0].target))  # baselines first
    for number, (column, line) in enumerate(in_order):
        # Beside each other, so that intervals do not cover each other.
        shift = 0.05 * (number - (len(lines) - 1) / 2)
        places = sorted(line)
        kernels = [line[place] for place in places]
        rates = [kernel["gb_per_s"] for kernel in kernels]
        ends = [
            (kernel["gb_per_s_low"], kernel["gb_per_s_high"]) if kernel["gb_per_s_low"] else None
            for kernel in kernels
        ]
        axes.errorbar(
            [place + shift for place in places],
            rates,
            yerr=_errors(rates, ends),
            label=wording.path(column),
            marker=MARKERS[number % len(MARKERS)],
            capsize=2,
            linewidth=1,
            elinewidth=0.7,
        )
    if limit := rows[0][1]["machine_gb_per_s"]:
        label = f"bandwidth of the machine: {limit:.3g} GB/s"
        axes.axhline(limit, color="black", linestyle="--", linewidth=1, label=label)
    axes.set_xticks(range(len(shapes)), shapes, rotation=30, ha="right")
    axes.set_xlim(-0.5, len(shapes) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GB/s")
    axes.set_title(title)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _errors(
    values: Sequence[float], ends: Iterable[tuple[float, float] | None]
) -> list[list[float]]:
    """Lengths of the error bars below and above each value; 0 without an interval."""
    known = [end or (value, value) for value, end in zip(values, ends, strict=True)]
    below = [max(0.0, value - low) for value, (low, _) in zip(values, known, strict=True)]
    return [below, [max(0.0, high - value) for value, (_, high) in zip(values, known, strict=True)]]
