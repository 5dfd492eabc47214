"""Series of a history as a plot: a panel per series, with intervals and changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scripts.features.compare.history.findings import Shown, ends_of, when
from scripts.records import plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.0
"""Inches."""
MOST = 24
"""Panels of a plot, those with findings first."""


def figure(shown: Sequence[Shown], column: str) -> Figure:
    """Return a figure of series."""
    chosen = sorted(shown, key=lambda one: not one.has_finding)[:MOST]
    made = plotting.figure(WIDTH, 0.4 + 1.9 * max(1, len(chosen)))
    panels = made.subplots(max(1, len(chosen)), 1, squeeze=False)[:, 0]
    if not chosen:
        return plotting.nothing(panels[0], "no series")
    for axes, one in zip(panels, chosen, strict=True):
        _panel(axes, one, column)
    return made


def _panel(axes: Axes, of: Shown, column: str) -> None:
    points = of.series.valued
    values = [one.value or 0.0 for one in points]
    ends = [ends_of(one) or (value, value) for one, value in zip(points, values, strict=True)]
    errors = [
        [max(0.0, value - low) for value, (low, _) in zip(values, ends, strict=True)],
        [max(0.0, high - value) for value, (_, high) in zip(values, ends, strict=True)],
    ]
    axes.errorbar(range(len(points)), values, yerr=errors, marker="o", markersize=3.5, color=plotting.color(2), elinewidth=0.8)  # fmt: skip
    for one in of.changed:
        axes.axvline(one.change.index - 0.5, color=plotting.color(5), linestyle="--")
        axes.annotate(f" × {one.change.ratio.ratio:.3g}", (one.change.index - 0.5, 1.0), xycoords=("data", "axes fraction"), va="top")  # fmt: skip
    if drift := of.found.drift:
        axes.annotate(f"drift × {drift.ratio.ratio:.3g}", (0.02, 0.95), xycoords="axes fraction", va="top")  # fmt: skip
    axes.set_title(of.series.title, fontsize=8, loc="left")
    axes.set_ylabel("times as fast" if of.series.anchor else column, fontsize=8)
    step = max(1, len(points) // 8)
    axes.set_xticks(range(0, len(points), step), [f"{one.entry.short}\n{when(one.at)}" for one in points[::step]], fontsize=7)  # fmt: skip
