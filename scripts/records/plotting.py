"""What all plots of matplotlib have in common: size, colours, and how they become files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 100
MARKERS = "osD^vP*X"
COLORS = ("#7a828b", "#e69f00", "#0072b2", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#a6761d")
"""Grey, and the colours of Okabe and Ito (2008), which readers with any kind of colour vision can tell apart."""
STYLE = {
    "svg.hashsalt": "vmfbench",  # the same plot is the same file
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
}


def color(number: int) -> str:
    """The colour of the line with a number."""
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    return MARKERS[number % len(MARKERS)]


def errors(
    values: Sequence[float], ends: Iterable[tuple[float, float] | None]
) -> list[list[float]]:
    """Lengths of the error bars below and above each value; 0 without an interval."""
    known = [end or (value, value) for value, end in zip(values, ends, strict=True)]
    below = [max(0.0, value - low) for value, (low, _) in zip(values, known, strict=True)]
    return [below, [max(0.0, high - value) for value, (_, high) in zip(values, known, strict=True)]]


def legend(axes: Axes) -> None:
    """Add a legend beside the axes."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def figure(width: float, height: float) -> Figure:
    """A figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def nothing(axes: Axes, why: str) -> Figure:
    """A figure that says why it is empty."""
    axes.set_title(why)
    axes.set_axis_off()
    figure: Figure = axes.figure
    return figure


def save(draw: Callable[[], Figure], path: Path) -> None:
    """Write <path>.svg and <path>.png of the figure that `draw` makes. The same figure gives the same files."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        drawn = draw()
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        drawn.savefig(path.with_suffix(".png"), dpi=DPI, metadata={"Software": None})
