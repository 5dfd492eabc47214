"""A history as text: its runs, series with bars, and findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from scripts.features.compare.history.changes import LEAST, Drift
from scripts.features.compare.history.findings import Changed, Ended, Shown, ends_of, when
from scripts.features.compare.history.series import LATENCY, Point, Series
from scripts.features.compare.history.store import Entry
from scripts.records import wording
from scripts.records.screen import plain_table
from scripts.timing.ratios import Interval

WIDTH = 24
"""Characters of the longest bar."""
EIGHTHS = " ▏▎▍▌▋▊▉"
NO_CHANGE = "no change was found"


def runs(entries: Sequence[Entry]) -> RenderableType:
    """A table of the entries."""
    table = plain_table()
    for name in ("run", "when (UTC)", "commit", "machine", "versions"):
        table.add_column(name)
    for name in ("rows", "ok"):
        table.add_column(name, justify="right")
    for one in entries:
        table.add_row(
            one.short, when(one.at), one.commit, f"{one.machine.name}: {one.machine.cpu}, {one.machine.cores} cores",
            versions(one), str(one.rows), str(one.statuses.get("ok", 0)),
        )  # fmt: skip
    return table


def versions(entry: Entry) -> str:
    """The versions of an entry, such as `PyTorch 2.15.0, IREE 3.13.0`, by toolchain if there are several."""
    of = {
        toolchain: ", ".join(f"{name} {' and '.join(known)}" for name, known in packages.items())
        for toolchain, packages in entry.toolchains.items()
    }
    if len(of) == 1:
        return next(iter(of.values()))
    return "; ".join(f"{toolchain}: {text}" for toolchain, text in of.items())


def show(console: Console, shown: Shown, column: str) -> None:
    """Print a series as a table with bars, and what was found in it."""
    console.print(Text(shown.series.title, style="bold"))
    table = plain_table()
    changed_at = {one.after for one in shown.changed}
    series = shown.series
    unit = f" ({shown.unit})" if shown.unit and not column.endswith(f"_{shown.unit}") else ""
    for name in ("run", "when (UTC)", "commit"):
        table.add_column(name)
    table.add_column("times as fast" if series.anchor else f"{column}{unit}", justify="right")
    if series.anchor:
        table.add_column(column, justify="right")
    table.add_column("")
    points = shown.series.valued
    most = max((one.value or 0.0 for one in points), default=0.0)
    for one in points:
        mark = " ← change" if one in changed_at else ""
        ms = [wording.milliseconds(one.ms)] if series.anchor and one.ms else []
        table.add_row(one.entry.short, when(one.at), one.entry.commit, value(one, series, column), *ms, bar(one.value or 0.0, most) + mark)  # fmt: skip
    console.print(table)
    for line in findings(shown, column):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    console.print()


def findings(shown: Shown, column: str) -> list[str]:
    """What was found in a series, as lines."""
    series = shown.series
    anew = f"starts anew with another anchor, after {series.follows}" if series.follows else ""
    if shown.has_finding:
        found = [anew, *(_changed(one, series, column) for one in shown.changed)]
        found += [_drift(shown, shown.found.drift)] if shown.found.drift else []
        return list(filter(None, found))
    count = len(series.valued)
    few = f"; {count} of the {LEAST} runs that a change needs" if count < LEAST else ""
    return [*filter(None, [anew]), NO_CHANGE + few]


def _changed(of: Changed, series: Series, column: str) -> str:
    before, after = (value(one, series, column, False) for one in (of.before, of.after))
    text = f"change in run {of.after.entry.short} ({when(of.after.at)}): {before} → {after}, {interval(of.change.ratio)}"
    return text + _differs(of.differs, of.before)


def _drift(shown: Shown, drift: Drift) -> str:
    points = shown.series.valued
    first, last = points[0], points[-1]
    return (
        f"slow drift from run {first.entry.short} ({when(first.at)}) to {last.entry.short} ({when(last.at)}): {interval(drift.ratio)} over "
        f"{len(points)} runs, × {drift.step:.4f} per run"
    )


def ended(of: Ended) -> str:
    """A change in how a cell ends, as a line."""
    text = f"{of.cell}: {of.before.ended} → {of.after.ended} in run {of.after.entry.short} ({when(of.after.at)})"
    return text + _differs(of.differs, of.before)


def _differs(differs: Iterable[str], before: Point) -> str:
    known = ", ".join(differs)
    return f"; since run {before.entry.short}: {known or 'nothing that the rows record'}"


def value(point: Point, series: Series, column: str, with_interval: bool = True) -> str:
    """The value of a point of a series as text, of a latency with its interval."""
    if point.value is None:
        return "–"
    if column != LATENCY:
        return f"{point.value:,.10g}"
    ends = ends_of(point) if with_interval else None
    text, *of_ends = (
        f"{one:.4g}" if series.anchor else wording.milliseconds(one)
        for one in (point.value, *(ends or ()))
    )
    return f"{text} ({' to '.join(of_ends)})" if of_ends else text


def interval(of: Interval) -> str:
    """A ratio as text, with its interval if it has one."""
    if of.low == of.high:
        return f"× {of.ratio:.4g}"
    return f"× {of.ratio:.3f} ({of.low:.3f} to {of.high:.3f})"


def bar(number: float, most: float) -> str:
    """A bar whose length is a share of WIDTH characters."""
    eighths = round(8 * WIDTH * number / most) if most > 0 else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
