"""Plot the GB/s of a kernel by shape and runtime, with the bandwidth of the machine as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.features.kernels.table import Record
from scripts.records import plotting, remedied, wording
from scripts.records.results_table import Column, column_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 8.0, 4.5
"""Size of one panel, in inches."""

Panel = tuple[str, str, int | None]
"""dtype, name of the device, threads."""


def write(kernel: str, records: Sequence[Record], folder: Path) -> None:
    """Write <folder>/<kernel>.svg and .png: one panel for each dtype and device.

    Rows that a remedy compiled by another lowering path are left out.
    """
    panels: dict[Panel, list[Record]] = {}
    for one in records:
        if one["latency"] and not remedied.by_other_path(one):
            panels.setdefault(_panel(one), []).append(one)
    plotting.save(lambda: _figure(kernel, panels), folder / kernel)


def _figure(kernel: str, panels: Mapping[Panel, Sequence[Record]]) -> Figure:
    figure = plotting.figure(WIDTH, HEIGHT * max(1, len(panels)))
    axes = figure.subplots(max(1, len(panels)), squeeze=False)[:, 0]
    for place, (panel, found) in zip(axes, panels.items(), strict=False):
        _draw(place, f"{kernel}, {_title(panel)}", found)
    if not panels:
        return plotting.nothing(axes[0], f"{kernel}: nothing was measured")
    return figure


def _panel(record: Record) -> Panel:
    run = record["run"]
    return record["experiment"]["dtype"], run["device_name"], run["threads"]


def _title(panel: Panel) -> str:
    dtype, device, threads = panel
    return f"{dtype}: {device}" + (f", {threads} threads" if threads else "")


def _draw(axes: Axes, title: str, records: Sequence[Record]) -> None:
    """One panel: a line with intervals for each runtime, and the machine's bandwidth."""
    shapes = list(dict.fromkeys(record["kernel"]["shape"] for record in records))
    lines: dict[Column, dict[int, Record]] = {}
    for record in records:
        place = shapes.index(record["kernel"]["shape"])
        lines.setdefault(column_of(record), {})[place] = record["kernel"]
    in_order = sorted(lines.items(), key=lambda one: bool(one[0].target))  # baselines first
    for number, (column, found) in enumerate(in_order):
        # Beside each other, so that intervals do not cover each other.
        shift = 0.05 * (number - (len(lines) - 1) / 2)
        places = sorted(found)
        rates = [found[place]["gb_per_s"] for place in places]
        axes.errorbar(
            [place + shift for place in places],
            rates,
            yerr=_intervals([found[place] for place in places]),
            label=wording.path(column),
            marker=plotting.MARKERS[number % len(plotting.MARKERS)],
            capsize=2,
            linewidth=1,
            elinewidth=0.7,
        )
    if limit := records[0]["kernel"]["machine_gb_per_s"]:
        label = f"bandwidth of the machine: {limit:.3g} GB/s"
        axes.axhline(limit, color="black", linestyle="--", linewidth=1, label=label)
    axes.set_xticks(range(len(shapes)), shapes, rotation=30, ha="right")
    axes.set_xlim(-0.5, len(shapes) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GB/s")
    axes.set_title(title)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _intervals(found: Sequence[Record]) -> list[list[float]]:
    """Lengths of the error bars below and above; 0 without an interval."""
    below = [max(0.0, k["gb_per_s"] - (k["gb_per_s_low"] or k["gb_per_s"])) for k in found]
    above = [max(0.0, (k["gb_per_s_high"] or k["gb_per_s"]) - k["gb_per_s"]) for k in found]
    return [below, above]
