"""The tables of a history: on the terminal and on the report page."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.features.compare.history.changes import LEAST
from scripts.features.compare.history.series import LATENCY, Point, Series, Step, when
from scripts.features.compare.history.store import ALL_PASSES, Compilation, Entry
from scripts.records import wording
from scripts.records.page_sections import Section
from scripts.timing.ratios import Interval

BAR = 24
"""Characters of the longest bar."""
EIGHTHS = " ▏▎▍▌▋▊▉"
LARGE = 0.05
"""The share of the compiler's seconds from which a pass is shown, and the runs that are."""
COMPILATIONS = 6
DIFFERS = "what differs from the run before"


def runs(entries: Sequence[Entry]) -> Section:
    """A table of the entries."""
    head = ("run", "when (UTC)", "commit", "machine", "versions", "rows", "ok")
    rows = []
    for entry in entries:
        machine = f"{entry.machine.name}: {entry.machine.cpu}, {entry.machine.cores} cores"
        numbers = (str(entry.rows), str(entry.statuses.get("ok", 0)))
        rows.append((entry.short, when(entry.at), entry.commit, machine, entry.versions, *numbers))
    return Section("Runs", head, rows, (5, 6))


def changes(what: str, column: str, of_cells: Sequence[Series]) -> Section:
    """Changes of the level, then drifts. `what`: the values in words."""
    rows = []
    for each in of_cells:
        for step in each.steps:
            values = " → ".join(_value(point, each, column) for point in (step.before, step.after))
            rows.append(
                (
                    each.cell,
                    "change",
                    run(step.after.entry),
                    values,
                    _interval(step.ratio),
                    ", ".join(step.differs),
                )
            )
    for each in of_cells:
        if drift := each.drift:
            values = " → ".join(_value(each.points[end], each, column) for end in (0, -1))
            over, per_run = f"over {len(each.points)} runs", f"× {drift.step:.4f} per run"
            rows.append((each.cell, "slow drift", over, values, _interval(drift.ratio), per_run))
    head = ("cell", "what", "run", "before → after", "ratio (99 % interval)", DIFFERS)
    short = sum(len(each.points) < LEAST for each in of_cells)
    few = f"; {short} of them have fewer than the {LEAST} runs that a change needs" if short else ""
    note = "" if rows else f"No change was found in {len(of_cells)} series{few}."
    return Section(f"Changes of {what}", head if rows else (), rows, note=note)


def endings(steps: Sequence[Step]) -> Section:
    """The changes in how cells end."""
    rows = [
        (
            step.cell,
            run(step.after.entry),
            f"{step.before.ending.words} → {step.after.ending.words}",
            ", ".join(step.differs),
        )
        for step in steps
    ]
    return Section("Cells that end in another way", ("cell", "run", "ends", DIFFERS), rows)


def table(of_cell: Series, column: str) -> Section:
    """The points of a series, with bars."""
    unit = f" ({of_cell.unit})" if of_cell.unit and not column.endswith(f"_{of_cell.unit}") else ""
    values = ("times as fast", column) if of_cell.anchor else (f"{column}{unit}",)
    changed = {step.after for step in of_cell.steps}
    most, rows = max(of_cell.values, default=0.0), []
    for point, value in zip(of_cell.points, of_cell.values, strict=True):
        eighths = round(8 * BAR * value / most) if most > 0 else 0
        bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
        ends = point.ends if column == LATENCY else None
        form = "{:.4g}".format if of_cell.anchor else wording.milliseconds
        interval = f" ({' to '.join(map(form, ends))})" if ends else ""
        ms = [wording.milliseconds(point.ms) if point.ms else "–"] if of_cell.anchor else []
        mark = " ← change" if point in changed else ""
        entry = (point.entry.short, when(point.at), point.entry.commit)
        rows.append((*entry, f"{_value(point, of_cell, column)}{interval}", *ms, bar + mark))
    note = f"Starts anew with another anchor, after {of_cell.follows}." if of_cell.follows else ""
    head = ("run", "when (UTC)", "commit", *values, "")
    return Section(of_cell.title, head, rows, range(3, 3 + len(values)), note)


def passes(cell: str, compilations: Sequence[tuple[Entry, Compilation]]) -> Section:
    """The passes of a cell that take a large part of the compiler's seconds in one of the newest runs."""
    newest = compilations[-COMPILATIONS:]
    names_of_runs = [f"IREE {kept.iree or '?'}\nrun {entry.short}" for entry, kept in newest]
    head = (f"{cell}: s of iree-compile on one thread", *names_of_runs)
    shown = [compilation.seconds for _, compilation in newest]
    names = dict.fromkeys(name for seconds in shown for name in seconds)
    large = [n for n in names if any(s.get(n, 0.0) >= LARGE * s[ALL_PASSES] for s in shown)]
    others = (2 * s[ALL_PASSES] - sum(s.get(name, 0.0) for name in large) for s in shown)
    rows = [(name, *(f"{seconds.get(name, 0.0):.2f}" for seconds in shown)) for name in large]
    rows.append(("(others)", *(f"{seconds:.2f}" for seconds in others)))
    return Section("", head, rows, range(1, len(head)))


def run(entry: Entry) -> str:
    """A run by when it was and its id."""
    return f"{when(entry.at)} ({entry.short})"


def _value(point: Point, of_cell: Series, column: str) -> str:
    if point.value is None:
        return "–"
    if column != LATENCY:
        return f"{point.value:,.10g}"
    return f"{point.value:.4g}" if of_cell.anchor else wording.milliseconds(point.value)


def _interval(ratio: Interval) -> str:
    """A ratio, with its interval if it has one."""
    if ratio.low == ratio.high:
        return f"× {ratio.ratio:.4g}"
    return f"× {ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
