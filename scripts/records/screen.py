"""Print the results table on a terminal, in the most complete style that fits its width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from scripts.records import wording
from scripts.records.results_table import Column, Row, Table, Timing
from scripts.supervise import outcome

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
    """The table at the end of a run.

    If the terminal is too narrow for the last style, the last columns are left out.
    """

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self.table
        yield Text("Latency in ms per call", style="bold")
        yield Text(wording.title(table), style="dim")
        yield Text("; ".join((*table.provenance.where, *table.provenance.with_what)), style="dim")
        yield Text()
        grid, left_out = _grid(table, options.max_width)
        yield grid
        yield Text()
        for line in (*_legend(table), *left_out):
            yield Text(line, style="dim")
        if table.means:
            yield Text()
            yield Text("Geometric mean of the speed-up", style="bold")
            yield Text()
            yield _means(table)
        if table.absent:
            yield Text()
            for one in table.absent:
                yield Text(wording.absent(one))


def _legend(table: Table) -> Iterator[str]:
    if table.has_intervals:
        yield "±: 99 % interval, its wider side"
        yield f"{FASTEST}: the fastest on its device, and what cannot be told from it"
    else:
        yield "no intervals: they need 3 generations; so nothing is called the fastest"
    if table.doubts:
        yield f"{wording.DOUBTFUL}: its ratios are doubtful; {PAGE} says why"


def _grid(table: Table, width: int) -> tuple[RichTable, list[str]]:
    """Return the table of latencies, and notes about the rows and columns that are not shown."""
    columns = list(table.columns)
    for style in STYLES:
        layout = Layout(table, columns, style)
        if layout.width <= width:
            break
    while layout.width > width and len(columns) > 1:
        columns.pop()
        layout = Layout(table, columns, STYLES[-1])
    shown = layout.rows
    notes = []
    if rows := len(table.rows) - len(shown):
        notes.append(f"{rows} more models: {PAGE}")
    if missing := table.columns[len(columns) :]:
        names = ", ".join(map(wording.path, missing))
        notes.append(f"no room for {names}: {PAGE}")
    return layout.grid(), notes


class Layout:
    """The cells of some columns in a style, and the width of the table."""

    def __init__(self, table: Table, columns: Sequence[Column], style: Style) -> None:
        self._columns, self._style = columns, style
        self.rows = table.rows[: MAX_LINES // (2 if style.below else 1)]
        self._shapes = {column: Shape(column, self.rows, style) for column in columns}
        self._sizes = style.sizes and any(row.size for row in self.rows)
        labels = [len(row.label) for row in self.rows]
        self._model_width = min(MODEL_WIDTH, max([len("model"), *labels]))
        self._size_width = max([0, *(len(row.size) for row in self.rows)]) if self._sizes else 0

    @property
    def width(self) -> int:
        """The width of the table, in characters."""
        widths = [self._model_width, *(shape.width for shape in self._shapes.values())]
        widths += [self._size_width] if self._sizes else []
        return sum(widths) + self._style.gap * (len(widths) - 1)

    def grid(self) -> RichTable:
        """Return the table."""
        grid = plain_table(self._style.gap)
        grid.add_column(Text("model"), width=self._model_width, no_wrap=True, overflow="ellipsis")
        if self._sizes:
            grid.add_column("", width=self._size_width, no_wrap=True, style="dim")
        for shape in self._shapes.values():
            grid.add_column(shape.head, width=shape.width, no_wrap=True)
        for row in self.rows:
            cells = [self._shapes[column].cell(row) for column in self._columns]
            size = [Text(row.size)] if self._sizes else []
            grid.add_row(Text(row.label), *size, *cells)
        return grid


class Shape:
    """One column: its heading, its cells and their widths."""

    def __init__(self, column: Column, rows: Sequence[Row], style: Style) -> None:
        self._column, self._style = column, style
        timings = [e.timing for row in rows if (e := row.entries.get(column)) and e.timing]
        self._number_width = max([0, *(len(wording.milliseconds_of(t)) for t in timings)])
        self._interval_width = max([0, *(len(_interval(t)) for t in timings)])
        beside = 0 if style.below or not self._interval_width else 1 + self._interval_width
        numbers = max(1 + self._number_width + beside, self._interval_width if style.below else 0)
        self._reasons = {
            row.label: wording.failure(e)
            for row in rows
            if (e := row.entries.get(column)) and not e.timing
        }
        names = [column.name, *([column.target] if column.target else [])]
        pieces = [piece for name in names for piece in self._pieces(name)]
        pieces += [piece for reason in self._reasons.values() for piece in self._pieces(reason)]
        self.width = max([numbers, *map(len, pieces)])
        self.head = self._right(*(Text(line) for name in names for line in self._wrapped(name)))

    def _pieces(self, name: str) -> list[str]:
        """Return the parts of a name that must not be broken over lines."""
        return textwrap.wrap(name, 1, break_long_words=False) if self._style.wrapped else [name]

    def _wrapped(self, name: str) -> list[str]:
        return textwrap.wrap(name, self.width, break_long_words=False) or [""]

    def cell(self, row: Row) -> Text:
        """Return the cell of a row in this column."""
        entry = row.entries.get(self._column)
        if entry is None:
            return self._right(Text(wording.NOT_IN_MATRIX, style="dim"))
        if entry.timing is None:
            style = "red" if entry.status in outcome.FAILED else "dim"
            reason = self._wrapped(self._reasons[row.label])
            return self._right(*(Text(line, style=style) for line in reason))
        return self._latency(entry.timing, self._column in row.fastest)

    def _latency(self, timing: Timing, is_fastest: bool) -> Text:
        style = "bold green" if is_fastest else ""
        number = Text(
            (FASTEST if is_fastest else "") + wording.milliseconds_of(timing), style=style
        )
        if not self._interval_width:
            return self._right(number)
        interval = Text(_interval(timing).rjust(self._interval_width), style="dim")
        if self._style.below:
            return self._right(number, interval)
        return self._right(Text.assemble(number, " ", interval))

    def _right(self, *lines: Text) -> Text:
        """Return lines that are aligned to the right.

        They are padded here because rich removes the spaces at the end of a justified cell. These
        spaces align the numbers without an interval with the others.
        """
        for line in lines:
            line.pad_left(self.width - line.cell_len)
        return Text("\n").join(lines)


def _interval(timing: Timing) -> str:
    """Return `±12%`: the wider side of the interval, relative to the latency."""
    if timing.ends_ms is None:
        return ""
    share = timing.ends_ms[1] / timing.ms - 1
    if share > 9.99:
        return "±>999%"
    return f"±{share:.1%}" if share < 0.0095 else f"±{share:.0%}"


def plain_table(gap: int = 2) -> RichTable:
    """Return a table whose only line is under its heading."""
    return RichTable(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0)
    )


def _means(table: Table) -> RichTable:
    shown = plain_table()
    shown.add_column("")
    for name in ("verified", *(f"over {wording.BASE_NAMES[n]}" for n in table.bases)):
        shown.add_column(name, justify="right")
    for mean in table.means:
        cells = [wording.speedup(mean.over[n], mean) for n in table.bases]
        shown.add_row(Text(wording.path(mean.column, mean.test)), wording.verified(mean), *cells)
    return shown
