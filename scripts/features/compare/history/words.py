"""A history as text: its runs, series with bars, and findings."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from scripts.features.compare.history.changes import LEAST
from scripts.features.compare.history.series import LATENCY, Point, Series, Step, when
from scripts.features.compare.history.store import ALL_PASSES, Entry, KeptCompilation
from scripts.records import wording
from scripts.records.page_sections import Section
from scripts.records.screen import plain_table
from scripts.timing.ratios import Interval

BAR = 24
"""Characters of the longest bar."""
LARGE = 0.05
"""The share of the compiler's seconds from which a pass is shown, and the runs that are."""
COMPILATIONS = 6
EIGHTHS = " ▏▎▍▌▋▊▉"
NO_CHANGE = "no change was found"


def runs(entries: Sequence[Entry]) -> Section:
    """A table of the entries."""
    head = ("run", "when (UTC)", "commit", "machine", "versions", "rows", "ok")
    rows = []
    for entry in entries:
        machine = f"{entry.machine.name}: {entry.machine.cpu}, {entry.machine.cores} cores"
        numbers = (str(entry.rows), str(entry.statuses.get("ok", 0)))
        rows.append((entry.short, when(entry.at), entry.commit, machine, entry.versions, *numbers))
    return Section("Runs", head, rows, (5, 6))


def show(console: Console, series: Series, column: str) -> None:
    """Print a series as a table with bars, and what was found in it."""
    console.print(Text(series.title, style="bold"))
    table = plain_table()
    unit = f" ({series.unit})" if series.unit and not column.endswith(f"_{series.unit}") else ""
    for name in ("run", "when (UTC)", "commit"):
        table.add_column(name)
    table.add_column("times as fast" if series.anchor else f"{column}{unit}", justify="right")
    if series.anchor:
        table.add_column(column, justify="right")
    table.add_column("")
    changed_at = {step.after for step in series.steps}
    most = max(series.values, default=0.0)
    for point, value in zip(series.points, series.values, strict=True):
        eighths = round(8 * BAR * value / most) if most > 0 else 0
        bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
        ms = [wording.milliseconds(point.ms)] if series.anchor and point.ms else []
        mark = " ← change" if point in changed_at else ""
        run = (point.entry.short, when(point.at), point.entry.commit)
        table.add_row(*run, _value(point, series, column), *ms, bar + mark)
    console.print(table)
    for line in findings(series, column):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    console.print()


def passes(cell: str, kept: Sequence[KeptCompilation]) -> Section:
    """A table of the passes of a cell that take a large part of the compiler's seconds in one of the newest runs."""
    newest = kept[-COMPILATIONS:]
    runs = [f"IREE {each.compilation.iree or '?'}\nrun {each.entry.short}" for each in newest]
    head = (f"{cell}: s of iree-compile on one thread", *runs)
    shown = [each.compilation.seconds for each in kept[-COMPILATIONS:]]
    names = dict.fromkeys(name for seconds in shown for name in seconds)
    large = [n for n in names if any(s.get(n, 0.0) >= LARGE * s[ALL_PASSES] for s in shown)]
    others = (2 * s[ALL_PASSES] - sum(s.get(name, 0.0) for name in large) for s in shown)
    rows = [(name, *(f"{seconds.get(name, 0.0):.2f}" for seconds in shown)) for name in large]
    rows.append(("(others)", *(f"{seconds:.2f}" for seconds in others)))
    return Section("", head, rows, range(1, len(head)))


def findings(series: Series, column: str) -> list[str]:
    """What was found in a series, as lines."""
    points, lines = series.points, []
    if series.follows:
        lines.append(f"starts anew with another anchor, after {series.follows}")
    for step in series.steps:
        before, after = (
            _value(point, series, column, False) for point in (step.before, step.after)
        )
        lines.append(
            f"change in run {_run(step.after)}: {before} → {after}, {interval(step.ratio)}{_differs(step)}"
        )
    if drift := series.drift:
        lines.append(
            f"slow drift from run {_run(points[0])} to {_run(points[-1])}: {interval(drift.ratio)} over "
            f"{len(points)} runs, × {drift.step:.4f} per run"
        )
    if not series.has_finding:
        few = f"; {len(points)} of the {LEAST} runs that a change needs"
        lines.append(NO_CHANGE + (few if len(points) < LEAST else ""))
    return lines


def ended(step: Step) -> str:
    """A change in how a cell ends, as a line."""
    before, after = step.before.ending.words, step.after.ending.words
    return f"{step.cell}: {before} → {after} in run {_run(step.after)}{_differs(step)}"


def _run(point: Point) -> str:
    return f"{point.entry.short} ({when(point.at)})"


def _differs(step: Step) -> str:
    known = ", ".join(step.differs) or "nothing that the rows record"
    return f"; since run {step.before.entry.short}: {known}"


def _value(point: Point, series: Series, column: str, with_interval: bool = True) -> str:
    """The value of a point of a series as text, of a latency with its interval."""
    if point.value is None:
        return "–"
    if column != LATENCY:
        return f"{point.value:,.10g}"
    ends = point.ends if with_interval else None
    text, *of_ends = (
        f"{number:.4g}" if series.anchor else wording.milliseconds(number)
        for number in (point.value, *(ends or ()))
    )
    return f"{text} ({' to '.join(of_ends)})" if of_ends else text


def interval(interval: Interval) -> str:
    """A ratio as text, with its interval if it has one."""
    if interval.low == interval.high:
        return f"× {interval.ratio:.4g}"
    return f"× {interval.ratio:.3f} ({interval.low:.3f} to {interval.high:.3f})"
