"""What is printed at the end of a run: the time per stage, rows by status and stage, and the results table in the most complete
style that fits the width of the terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich import console as rich_console
from rich.console import ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from scripts.config import stages
from scripts.core.console import Console
from scripts.measure.timing.ratios import LEAST
from scripts.results import row_set, wording
from scripts.results.page_sections import Section, as_text
from scripts.results.remedied import WAYS
from scripts.results.results_table import ModelRows, Table
from scripts.results.row import Column, Timing
from scripts.run import outputs
from scripts.supervise import journal, outcome
from scripts.supervise.journal import Account

MAX_LINES = 40
"""Lines of models on the screen; results/latency.md has all models."""
MODEL_WIDTH = 36
FASTEST = "*"
PAGE = "results/latency.md"


@dataclass(frozen=True)
class Style:
    """How cells are printed.

    `sizes`: print the sizes of the models. `wrapped`: wrap headings at their hyphens. `below`:
    print the interval below the number. `gap`: spaces between columns.
    """

    sizes: bool = False
    wrapped: bool = False
    below: bool = False
    gap: int = 2


STYLES = (
    Style(sizes=True),
    Style(sizes=True, wrapped=True),
    Style(),
    Style(wrapped=True),
    Style(wrapped=True, below=True, gap=1),
)
"""From the widest to the narrowest; the first that fits is used."""


@dataclass(frozen=True)
class Screen:
    """The table at the end of a run. `page`: the file with all of it.

    If the terminal is too narrow for the last style, the last columns are left out.
    """

    table: Table
    page: str = PAGE

    def __rich_console__(
        self, console: rich_console.Console, options: ConsoleOptions
    ) -> RenderResult:
        table = self.table
        yield from compiled(table)
        yield from heading("Latency in ms per call", table)
        yield from _fitting(table, self.page, console, options)
        if table.means:
            yield Text()
            yield Text("Geometric mean of the speed-up", style="bold")
            yield Text()
            means = plain_table("", *wording.means_head(table))
            for mean in table.means:
                name = Text(wording.path(mean.column, mean.test))
                means.add_row(name, *wording.means(mean, table))
            yield means
        if table.absent:
            yield Text()
            for absent in table.absent:
                yield Text(wording.absent(absent))


@dataclass(frozen=True)
class Printed:
    """Sections at the end of a run."""

    sections: Sequence[Section]

    def __rich_console__(
        self, console: rich_console.Console, options: ConsoleOptions
    ) -> RenderResult:
        yield Text(as_text(self.sections, options.max_width).rstrip())


def compiled(table: Table) -> Iterator[Text]:
    """Yield, per target, how its cells were compiled: nothing if all compiled as asked."""
    counts: dict[str, Counter[str]] = {}
    for line in table.rows:
        for column, row in line.entries.items():
            if column.target:
                counts.setdefault(column.target, Counter())[row.way] += 1
    if all(set(ways) <= {WAYS[0]} for ways in counts.values()):
        return
    for target, ways in counts.items():
        yield Text(f"compiled for {target}: " + ", ".join(f"{ways[way]} {way}" for way in WAYS))
    yield Text()


def heading(title: str, table: Table) -> Iterator[Text]:
    """Yield the lines above a table of results: what it is, the counts, and where and with what the rows were measured."""
    yield Text(title, style="bold")
    yield Text(wording.title(table), style="dim")
    yield Text("; ".join(table.provenance.measured_with), style="dim")
    yield Text()


def plain_table(*head: str, gap: int = 2) -> RichTable:
    """Return a table whose only line is under its heading. Columns after the first are aligned to the right."""
    table = RichTable(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0)
    )
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    return table


def _legend(table: Table, page: str) -> Iterator[str]:
    if table.has_intervals:
        yield f"±: 99 % interval, its wider side; {wording.UNKNOWN}: wider than ±50 %; {wording.NO_INTERVAL}: none"
        yield f"{FASTEST}: the fastest on its device, and what cannot be told from it; none where such a ratio is not known to 25 %"
    else:
        yield f"{wording.NO_INTERVAL}: no interval, which needs {LEAST} generations; so nothing is called the fastest"
    if unknown := wording.unknown(table):
        yield unknown
    if doubtful := wording.doubtful(table):
        yield f"{doubtful}; {page} says why"
    if leaks := wording.leaks(table):
        yield f"leaks: {'; '.join(leaks)}"


def _fitting(
    table: Table, page: str, console: rich_console.Console, options: ConsoleOptions
) -> Iterator[RenderableType]:
    """Yield the table of latencies, and notes about the models and columns that are not shown."""

    def fits(grid: RichTable) -> bool:
        unlimited = options.update(max_width=10_000)
        return Measurement.get(console, unlimited, grid).maximum <= options.max_width

    columns = list(table.columns)
    for style in STYLES:
        grid = _grid(table, columns, style)
        if fits(grid):
            break
    while not fits(grid) and len(columns) > 1:
        columns.pop()
        grid = _grid(table, columns, style)
    yield grid
    yield Text()
    yield from (Text(line, style="dim") for line in _legend(table, page))
    if left := len(table.rows) - grid.row_count:
        yield Text(f"{left} more models: {page}", style="dim")
    if missing := table.columns[len(columns) :]:
        names = ", ".join(map(wording.path, missing))
        yield Text(f"no room for {names}: {page}", style="dim")


def _grid(table: Table, columns: Sequence[Column], style: Style) -> RichTable:
    """Return the table of some columns in a style."""
    lines = table.rows[: MAX_LINES // (2 if style.below else 1)]
    grid = plain_table(gap=style.gap)
    grid.add_column(Text("model"), max_width=MODEL_WIDTH, no_wrap=True, overflow="ellipsis")
    cells = [[Text(line.label) for line in lines]]
    if style.sizes and any(line.size for line in lines):
        grid.add_column("", no_wrap=True, style="dim")
        cells.append([Text(line.size) for line in lines])
    for column in columns:
        head, *own = _column(column, lines, style, table)
        grid.add_column(head, no_wrap=True)
        cells.append(own)
    for row in zip(*cells, strict=True):
        grid.add_row(*row)
    return grid


def _column(
    column: Column, lines: Sequence[ModelRows], style: Style, table: Table
) -> Iterator[Text]:
    """Yield the heading of a column and its cells, all of the same width."""
    rows = [line.entries.get(column) for line in lines]
    timings = [row.timing for row in rows if row and row.timing]
    number = max((len(wording.milliseconds_of(timing, table)) for timing in timings), default=0)
    interval = max((len(_interval(timing)) for timing in timings), default=0)
    names = list(filter(None, (column.name, column.target)))
    # What must not be broken over lines.
    whole = [*names, *(row.why for row in rows if row and not row.timing)]
    if style.wrapped:
        whole = [piece for name in whole for piece in _wrapped(name, 1)]
    beside = interval + 1 if interval and not style.below else 0
    width = max(1 + number + beside, interval, *map(len, whole))

    def right(*parts: Text) -> Text:
        # Padded here, because rich removes the spaces at the end of a justified cell. These align the numbers without an
        # interval with the others.
        for part in parts:
            part.pad_left(width - part.cell_len)
        return Text("\n").join(parts)

    yield right(*(Text(part) for name in names for part in _wrapped(name, width)))
    for line, row in zip(lines, rows, strict=True):
        if row is None:
            yield right(Text(wording.NOT_IN_MATRIX, style="dim"))
        elif row.timing is None:
            color = "red" if row.ended.status in outcome.FAILED else "dim"
            yield right(*(Text(part, style=color) for part in _wrapped(row.why, width)))
        else:
            is_fastest = column in line.fastest
            ms = (FASTEST if is_fastest else "") + wording.milliseconds_of(row.timing, table)
            parts = [Text(ms, style="bold green" if is_fastest else "")]
            if interval:
                parts.append(Text(_interval(row.timing).rjust(interval), style="dim"))
            yield right(*parts) if style.below else right(Text(" ").join(parts))


def _wrapped(name: str, width: int) -> list[str]:
    return textwrap.wrap(name, width, break_long_words=False) or [""]


def _interval(timing: Timing) -> str:
    """Return `±12%`: the wider side of the interval, relative to the latency; "" for a latency that is not known."""
    if timing.ends_ms is None:
        return wording.NO_INTERVAL
    if timing.is_unknown:
        return ""
    share = timing.ends_ms[1] / timing.ms - 1
    return f"±{share:.1%}" if share < 0.0095 else f"±{share:.0%}"


COUNTED = ("status", "stage", "latency_ms", "stale")
"""The columns of a CSV that are kept to count its rows."""


def show(path: Path, now: float, before: outputs.Versions) -> None:
    """Print the summary of the last run. `now`, `before`: see RunLog.

    The tables of rows are printed only if that run wrote the rows, and the times only if it ran a
    stage. The most important part is printed last.
    """
    console = Console(stderr=True, highlight=False)
    account = journal.of_last_run(path, now)
    if account is None:
        return
    if account.stages:
        console.print(seconds(account), "")
    for declared in row_set.loaded():
        if (written := outputs.written_rows(before, declared.csv)) is not None:
            rows = [{key: row[key] for key in COUNTED} for row in written]
            shown = declared.screen(row_set.Stored(declared.jsonl))
            console.print(counted(rows), "", shown, "")
            for line in pointers(rows, declared.csv):
                console.print(line, soft_wrap=True)


def show_cpu() -> None:
    """Print the table of the rows on the CPU, which are there before those on other devices."""
    csv, page, jsonl = outputs.CPU_FILES
    console = Console(stderr=True, highlight=False)
    table = Table.of_records(row_set.Stored(jsonl))
    console.print(Screen(table, str(page)), "")
    console.print(f"the rows on the CPU: {csv}; those on other devices follow", soft_wrap=True)


def pointers(rows: list[dict[str, str]], table: Path = outputs.CSV) -> Iterator[str]:
    """Yield the paths of the results, and commands for failed and stale rows."""
    yield f"results: {table}, {table.with_suffix('.md')}"
    if any(row["status"] in outcome.FAILED for row in rows):
        yield "failures: vmfbench failed"
    if stale := sum(row["stale"] == "True" for row in rows):
        yield f"{stale} rows were measured by older code; --config retry=stale measures them again"


def seconds(account: Account) -> Group:
    """Return a table of the time per stage."""
    has_environments = account.environments >= 0.5
    environments = (
        f"{account.environments:.0f} s of them to make environments; " if has_environments else ""
    )
    whole = "rest" if has_environments else "time"
    rest = f"no stage ran for {account.overhead:.0%} of the {whole}"
    shown = plain_table("stage", "runs", "start-up", "work")
    for stage in (s for s in stages.folders() if s in account.stages):
        spent = account.stages[stage]
        numbers = (spent.startup, spent.work)
        shown.add_row(stage, str(spent.runs), *(f"{n:.0f}" if n >= 0.5 else "" for n in numbers))
    return Group(
        Text(f"{account.wall:.0f} s in all; {environments}{rest}", style="bold"),
        "",
        shown,
        "",
        Text(
            "seconds of the stages' processes, which run beside each other (one that times something runs "
            "alone); start-up: until work begins",
            style="dim",
        ),
    )


def counted(rows: list[dict[str, str]]) -> Group:
    """Return the number of rows, and a table of their statuses."""
    verified = sum(bool(row["latency_ms"]) for row in rows)
    title = f"{len(rows)} rows, {verified} with a verified latency"
    return Group(Text(title, style="bold"), "", by_status(rows))


def by_status(rows: list[dict[str, str]]) -> RichTable:
    """Return the number of rows per status (down) and per stage that decided it (across)."""
    counts = Counter((row["status"], row["stage"]) for row in rows)
    deciding = [s for s in stages.folders() if any(stage == s for _, stage in counts)]
    shown = plain_table("status", *deciding, "all")
    for status in outcome.STATUSES:
        line = [counts[status, stage] for stage in deciding]
        if sum(line):
            shown.add_row(status, *(str(n) if n else "" for n in line), str(sum(line)))
    return shown
