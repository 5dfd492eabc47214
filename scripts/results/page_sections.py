"""Parts of pages and screens: each is declared once, and printed on a terminal, in Markdown, in HTML (sections.js draws the JSON), or as JSON."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.results import wording

WIDTH, NO_LIMIT = 160, 10_000
"""Characters of a line: on a terminal of unknown width, and where none is too long."""
Place = int | Sequence[int] | None
"""The rows of the report page that a line of a table or chart is about: the filters hide it with all of them, and it opens the first one."""


class Styled(str):
    """The text of a cell with a style: CODE, STRONG, or a class of the report page (style.css). `share`: how much of the cell a bar fills."""

    style: str
    share: float | None

    def __new__(cls, text: object, style: str = "", share: float | None = None) -> Styled:
        styled = super().__new__(cls, text)
        styled.style, styled.share = style, share
        return styled


CODE, STRONG = "code", "strong"


@dataclass(frozen=True)
class Line:
    """A line of a chart. `path`: the lowering path or runtime that has its colour. `points`: x, y and the ends of the interval of y, or None."""

    name: str
    path: str
    points: Sequence[tuple[float, float, float | None, float | None]]
    place: Place = None


@dataclass(frozen=True)
class Chart:
    """A chart, which only the report page has. `x`, `y`: what the axes show. `ticks`: the names of x = 0, 1, …; without them x is a number.
    `rule`: a y that is marked. `marks`: x that are marked, with words. `bands`: colour the ground by faster, same and slower than 1. `dots`: each of
    `lines` has one y, which is shown from left to right beside its name; the path of a ratio is its verdict. `stacked`: each of `ticks` is a bar, in
    which `lines` follow each other, y wide."""

    title: str
    y: str
    lines: Sequence[Line]
    x: str = ""
    ticks: Sequence[str] = ()
    rule: float | None = None
    marks: Sequence[tuple[float, str]] = ()
    bands: bool = False
    dots: bool = False
    stacked: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a page. `note`: Markdown above its table, without text of others (markdown.text escapes that). `right`: the columns with numbers.
    `lines`: a list, above the table too. `text`: lines that are printed as they are. Only the report page has `charts`, `command`, `folded` (shown on demand) and
    `places` (of the rows of the table)."""

    title: str
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    right: Collection[int] = ()
    note: str = ""
    lines: Sequence[str] = ()
    text: str = ""
    parts: Sequence[Section] = ()
    command: str = ""
    charts: Sequence[Chart] = ()
    places: Sequence[Place] = ()
    folded: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing below the title and above a head without rows."""
        content = (
            self.rows,
            self.lines,
            self.text,
            self.command,
            self.charts,
            self.note and not self.head,
        )
        return not any(content) and all(part.is_empty for part in self.parts)


def shown(sections: Iterable[Section]) -> list[Section]:
    """Return those that are not empty."""
    return [section for section in sections if not section.is_empty]


def as_markdown(sections: Iterable[Section], level: int = 2) -> str:
    """Return sections as Markdown. `level`: of their headings."""
    return "\n".join(_markdown(section, level) for section in shown(sections))


def _markdown(section: Section, level: int) -> str:
    table = [[_in_markdown(cell) for cell in row] for row in section.rows]
    head = [*map(wording.text, section.head)]
    parts = (
        section.title and f"{'#' * level} {wording.text(section.title)}\n",
        section.note and f"{section.note.strip()}\n",
        wording.bullets(section.lines),
        table and wording.table(head, table, section.right),
        section.text and f"```text\n{section.text}\n```\n",
        as_markdown(section.parts, level + 1),
    )
    return "\n".join(part for part in parts if part)


def _in_markdown(cell: str) -> str:
    style = getattr(cell, "style", "")
    if style == CODE:
        return wording.code(cell)
    return f"**{wording.text(cell)}**" if style == STRONG else wording.text(cell)


def as_text(sections: Iterable[Section], width: int = WIDTH) -> str:
    """Return sections for a terminal, with tables of at most so many characters."""
    return "\n".join(
        "".join(f"{line}\n" for line in _text(each, width)) for each in shown(sections)
    )


def _text(section: Section, width: int) -> Iterator[str]:
    if section.title:
        yield section.title
    if section.note:
        yield plain(section.note)
    yield from section.lines
    if section.rows:
        yield from table_lines(section.head, section.rows, section.right, width)
    if section.text:
        yield section.text
    for part in shown(section.parts):
        yield ""
        yield from _text(part, width)


def table_lines(
    head: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int], width: int = WIDTH
) -> list[str]:
    """Return the lines of a table for a terminal. The columns `right` are aligned to the right."""
    # The environment of the stages has no rich.
    from rich.table import Table

    from scripts.core.console import Console

    out = io.StringIO()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place in right else "left")
    for row in rows:
        table.add_row(*row)
    Console(file=out, width=width, highlight=False).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def plain(note: str) -> str:
    """Return a note without the marks of Markdown, on one line."""
    return " ".join(re.sub(r"\\(.)|\*\*|[`*]", r"\1", note).split())


def to_json(section: Section) -> dict[str, Any]:
    """Return a section as sections.js draws it, without what is empty."""
    values = {field.name: getattr(section, field.name) for field in dataclasses.fields(section)}
    values |= {
        "note": plain(section.note),
        "right": [*section.right],
        "rows": [[*map(_in_json, row)] for row in section.rows],
        "charts": [_without_defaults(chart) for chart in section.charts],
        "parts": [to_json(part) for part in shown(section.parts)],
    }
    return {name: value for name, value in values.items() if value}


def _in_json(cell: str) -> str | dict[str, Any]:
    if isinstance(cell, Styled):
        return {"text": str(cell), "style": cell.style, "share": cell.share}
    return cell


def _without_defaults(chart: Chart) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(chart).items() if value not in ("", (), None, False)}  # fmt: skip
