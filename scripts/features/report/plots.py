"""Plots of the results table as SVG and PNG: mean speed-ups, latency by model, IREE against inductor, and parallel efficiency."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.features.report import thread_scaling
from scripts.records import plotting, wording
from scripts.records.results_table import ModelRows, Table
from scripts.records.row import Column, Timing
from scripts.timing.ratios import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.0
"""Inches."""
MOST_MODELS = 60
"""Models in the plot of latencies; the page and latency.md have all."""
OTHER = "inductor"


def write(table: Table, folder: Path) -> None:
    """Write the plots into a folder."""
    for draw in (_speedups, _latency, _scatter, _threads):
        plotting.save(functools.partial(draw, table), folder / draw.__name__.strip("_"))


def _speedups(table: Table) -> Figure:
    """A point with its interval per column and base."""
    means = [mean for mean in table.means if any(mean.over)]
    figure = plotting.figure(WIDTH, 1.3 + 0.42 * max(1, len(means)))
    axes = figure.subplots()
    if not means:
        return plotting.nothing(axes, "no row can be compared with eager")
    for number, (base, marker) in enumerate(zip(wording.BASE_NAMES, "oD", strict=True)):
        places = [place + 0.16 * (number - 0.5) for place in range(len(means))]
        pairs = zip(means, places, strict=True)
        known = [(over, place) for mean, place in pairs if (over := mean.over[number])]
        if not known:
            continue
        values = [over.mean for over, _ in known]
        ends = [_ends(over.interval) for over, _ in known]
        axes.errorbar(
            values,
            [place for _, place in known],
            xerr=plotting.errors(values, ends),
            label=f"over {base}",
            marker=marker,
            color=plotting.color(2 + number),
            linestyle="none",
            capsize=2,
        )
    axes.axvline(1.0, color="black", linewidth=0.8)
    names = [wording.path(mean.column, mean.test) for mean in means]
    axes.set_yticks(range(len(means)), names)
    axes.invert_yaxis()
    axes.set_xlabel("times as fast (geometric mean, 99 % interval)")
    plotting.legend(axes)
    return figure


def _latency(table: Table) -> Figure:
    """A row of points per model; the axis is logarithmic, as latencies differ by factors of a thousand."""
    rows = [row for row in table.rows if any(e.timing for e in row.entries.values())][:MOST_MODELS]
    columns = [column for column in table.columns if any(_timing(row, column) for row in rows)]
    height = max(0.3 * max(1, len(rows)), 0.17 * len(columns))  # of the rows, and of the legend
    figure = plotting.figure(WIDTH, 1.3 + height)
    axes = figure.subplots()
    if not rows:
        return plotting.nothing(axes, "nothing was measured")
    for number, column in enumerate(columns):
        points = [(place, t) for place, row in enumerate(rows) if (t := _timing(row, column))]
        shift = 0.7 * (number / max(1, len(columns) - 1) - 0.5)
        axes.errorbar(
            [timing.ms for _, timing in points],
            [place + shift for place, _ in points],
            xerr=_errors([timing for _, timing in points]),
            linestyle="none",
            **_style(wording.path(column), number),
        )
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_xlabel("ms per call (99 % interval)")
    plotting.legend(axes)
    return figure


def _scatter(table: Table) -> Figure:
    """A point per row of IREE that can be compared with inductor."""
    figure = plotting.figure(WIDTH, 0.75 * WIDTH)
    axes = figure.subplots()
    points: dict[Column, list[tuple[Timing, Timing]]] = {}
    for line in table.rows:
        others = {
            row.conditions: row.timing
            for row in reversed(line.entries.values())
            if row.timing and row.runtime == OTHER
        }
        for column, row in line.entries.items():
            if row.timing and column.target and (than := others.get(row.conditions)):
                points.setdefault(column, []).append((than, row.timing))
    if not points:
        return plotting.nothing(axes, f"no row can be compared with {OTHER}")
    for number, (column, pairs) in enumerate(points.items()):
        axes.errorbar(
            [than.ms for than, _ in pairs],
            [timing.ms for _, timing in pairs],
            xerr=_errors([than for than, _ in pairs]),
            yerr=_errors([timing for _, timing in pairs]),
            linestyle="none",
            **_style(wording.path(column), number),
        )
    every = [t.ms for pairs in points.values() for pair in pairs for t in pair]
    ends = [min(every) / 1.3, max(every) * 1.3]
    axes.plot(ends, ends, color="black", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", yscale="log", xlabel=f"{OTHER}, ms per call", ylabel="IREE, ms per call")
    plotting.legend(axes)
    return figure


def _threads(table: Table) -> Figure:
    """Per model a panel of latencies and one of efficiencies, by number of threads."""
    lines = [line for line in thread_scaling.lines(table) if any(p.row.timing for p in line.points)]
    labels = list(dict.fromkeys(line.of.label for line in lines))[:MOST_MODELS]
    figure = plotting.figure(WIDTH, 1.2 + 2.2 * max(1, len(labels)))
    panels = figure.subplots(max(1, len(labels)), 2, squeeze=False)
    if not labels:
        panels[0, 1].set_axis_off()
        return plotting.nothing(panels[0, 0], "no row was measured on several numbers of threads")
    paths = list(dict.fromkeys(line.path for line in lines))
    for label, (left, right) in zip(labels, panels, strict=True):
        own = [line for line in lines if line.of.label == label]
        for line in own:
            _line(line, paths.index(line.path), left, right)
        numbers = sorted({point.threads for line in own for point in line.points})
        for axes, name in ((left, "ms per call"), (right, "efficiency")):
            axes.set_title(label, loc="left")
            axes.set_xticks(numbers)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(name)
        right.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
    for axes in panels[-1]:
        axes.set_xlabel("threads (99 % intervals)")
    named: dict[str, Any] = {}
    for axes in panels[:, 1]:
        handles, names = axes.get_legend_handles_labels()
        named |= dict(zip(names, handles, strict=True))
    figure.legend([*named.values()], [*named], loc="outside lower center", ncols=2, frameon=False)
    return figure


def _line(line: thread_scaling.Line, number: int, latency: Axes, efficiency: Axes) -> None:
    timed = [(point, point.row.timing) for point in line.points if point.row.timing]
    numbers = [point.threads for point, _ in timed]
    timings = [timing for _, timing in timed]
    shares = [point.efficiency or 0.0 for point, _ in timed]
    ends = [_ends(point.interval) for point, _ in timed]
    style = _style(line.path, number)
    latency.errorbar(numbers, [timing.ms for timing in timings], yerr=_errors(timings), **style)
    efficiency.errorbar(numbers, shares, yerr=plotting.errors(shares, ends), **style)


def _style(label: str, number: int) -> dict[str, Any]:
    marker, color = plotting.marker(number), plotting.color(number)
    return {"label": label, "marker": marker, "color": color, "markersize": 3.5, "elinewidth": 0.8}


def _timing(line: ModelRows, column: Column) -> Timing | None:
    return line.entries[column].timing if column in line.entries else None


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return (interval.low, interval.high) if interval else None


def _errors(timings: Sequence[Timing]) -> list[list[float]]:
    return plotting.errors(
        [timing.ms for timing in timings], [timing.ends_ms for timing in timings]
    )
