"""A comparison as text, Markdown, JSON, or annotations of GitHub Actions."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scripts.features.compare.compare import AMOUNTS, AmountChange, Change, Comparison
from scripts.features.compare.latencies import (
    ALL,
    FASTER,
    POWER,
    SAME,
    SLOWER,
    UNDECIDED,
    LatencyChange,
    MeanChange,
)
from scripts.features.compare.outcomes import GONE, KINDS, NEW, OutcomeChange
from scripts.records import markdown
from scripts.records.wording import milliseconds

WIDTH = 160
BY_ANCHOR = "By anchor: the ratio is that of the speed-ups over the anchor; the milliseconds are of different times."
SHOWN = 40
"""Rows of a table of undecided or unchanged latencies."""
_AMOUNTS = {amount.key: amount for amount in AMOUNTS}


@dataclass(frozen=True)
class Section:
    """A table. `note`: what its columns mean. `right`: the columns with numbers."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: tuple[int, ...] = ()
    note: str = ""


def as_text(found: Comparison, with_all: bool = False) -> str:
    """Return the comparison for a terminal."""
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, highlight=False)
    console.print(escape(f"{found.before} → {found.after}"))
    for one in sections(found, with_all):
        table = Table(title=one.title, title_justify="left", caption=one.note or None, caption_justify="left")  # fmt: skip
        for place, name in enumerate(one.head):
            table.add_column(name, justify="right" if place in one.right else "left")
        for row in one.rows:
            table.add_row(*map(escape, row))
        console.print(table)
    for line in summary(found):
        console.print(escape(line))
    return out.getvalue()


def as_markdown(found: Comparison, with_all: bool = False) -> str:
    """Return the comparison as a comment on a pull request: the result first."""
    parts = [f"### {markdown.text(found.before)} → {markdown.text(found.after)}\n"]
    parts.append("".join(f"- {markdown.text(line)}\n" for line in summary(found)))
    for one in sections(found, with_all):
        rows = [tuple(map(markdown.text, row)) for row in one.rows]
        note = f"\n{markdown.text(one.note)}\n" if one.note else ""
        parts.append(f"#### {one.title}\n\n{markdown.table(one.head, rows, one.right)}{note}")
    return "\n".join(parts)


def as_json(found: Comparison, with_all: bool = False) -> str:
    """Return the whole comparison, also as sentences and tables (for results/report.html)."""
    tables = [asdict(one) for one in sections(found, with_all)]
    whole = found.as_json() | {"summary": summary(found), "tables": tables}
    return json.dumps(whole, indent=2, allow_nan=False) + "\n"


def as_annotations(found: Comparison, with_all: bool = False) -> str:
    """Return workflow commands of GitHub Actions: an error for each change for the worse, a notice for each
    other change, and the summary (docs.github.com, "Workflow commands for GitHub Actions")."""
    return "".join(f"{line}\n" for line in _annotations(found))


def _annotations(found: Comparison) -> Iterator[str]:
    alarms = found.alarms
    changes: list[Change] = [*found.outcomes, *found.latencies, *found.amounts]
    for one in changes:
        said = _said(one)
        if one in alarms or said:
            yield _command("error" if one in alarms else "notice", said, one.cell)
    yield _command("notice", "\n".join(summary(found)), f"{found.before} → {found.after}")


def _said(one: Change) -> str:
    """A change in one line; "" for a latency of which no change was found."""
    match one:
        case OutcomeChange():
            detail = f": {one.detail}" if one.detail else ""
            return f"{one.kind} ({KINDS[one.kind]}): {one.before or '–'} → {one.after or '–'}{detail}"  # fmt: skip
        case LatencyChange():
            return f"{one.verdict}: {_ratio(one)}" if one.verdict in (SLOWER, FASTER) else ""
        case AmountChange():
            return f"{_AMOUNTS[one.key].words}: {_amount(one)}"


def _command(kind: str, message: str, title: str) -> str:
    """A workflow command. Its parts are escaped as @actions/core does it."""
    body, head = (
        text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        for text in (message, title)
    )
    return f"::{kind} title={head.replace(':', '%3A').replace(',', '%2C')}::{body}"


FORMATS: dict[str, Callable[[Comparison, bool], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "json": as_json,
    "github": as_annotations,
}


def summary(found: Comparison) -> list[str]:
    """Return the result in a few sentences, the most important first."""
    verdicts = Counter(one.verdict for one in found.latencies)
    kinds = Counter(one.kind for one in found.outcomes)
    counted = [f"{found.cells} cells in both: {found.unchanged} with the same outcome"]
    said = [", ".join(counted + [f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind]])]
    if found.latencies:
        words = [f"{verdicts[one]} {one}" for one in (SLOWER, FASTER, SAME, UNDECIDED)]
        said.append(f"{len(found.latencies)} latencies compared: {', '.join(words)}")
    if found.not_compared:
        said.append(f"{len(found.not_compared)} latencies not compared")
    for mean in found.means:
        if mean.by == ALL:
            said.append(f"geometric mean of the ratios after / before: {_ratio(mean)}")
    worse = len(found.alarms)
    return [*said, f"{worse} changes for the worse" if worse else "no change for the worse"]


def sections(found: Comparison, with_all: bool = False) -> list[Section]:
    """Return the tables that have rows. `with_all`: also latencies of which no change was found."""
    shown = [one for one in found.latencies if one.verdict in (SLOWER, FASTER)]
    hidden = (UNDECIDED, SAME) if with_all else (UNDECIDED,)
    undecided = [one for one in found.latencies if one.verdict in hidden]
    versions = [(one.name, one.before, one.after, str(one.rows)) for one in found.versions]
    amounts = [
        ("worse" if one.worse else "better", _AMOUNTS[one.key].words, one.cell, _amount(one))
        for one in found.amounts
    ]
    means = [(f"{one.by} {one.name}".strip(), str(one.cells), _ratio(one)) for one in found.means]
    made = [
        Section("Versions and options", ("what", "before", "after", "rows"), versions, (3,)),
        _outcomes(found, with_all),
        _latencies(
            "Latency",
            sorted(shown, key=lambda one: -one.ratio),
            f"Ratio: after / before, with an interval that excludes 1 exactly for the cells that differ at a rate of false "
            f"discoveries of {found.settings.rate:.0%} over all cells (Benjamini and Hochberg). {BY_ANCHOR}",
        ),
        Section(
            "Compilation, memory, size and error", ("change", "what", "cell", "ratio"), amounts
        ),
        Section(
            *("Means", ("over", "cells", "ratio"), means, (1, 2)),
            "Geometric means of latency after / latency before, with 99 % intervals of each mean alone.",
        ),
        _latencies(
            "Latencies of which no change was found" if with_all else "Undecided latencies",
            sorted(undecided, key=lambda one: -one.smallest)[: None if with_all else SHOWN],
            f"Smallest: the slow-down that would have been found with a probability of {POWER:.0%}. {BY_ANCHOR}",
        ),
        _not_compared(found, with_all),
    ]
    return [one for one in made if one.rows]


def _ratio(one: LatencyChange | MeanChange) -> str:
    """`1.12 (1.05 to 1.19)`."""
    return f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})"


def _amount(one: AmountChange) -> str:
    """`1.53 × (2.1 s before, 3.2 s after)`."""
    factor = f"{one.after / one.before:.2f} × " if one.before else ""
    unit = _AMOUNTS[one.key].unit
    before, after = (
        f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.4g} {unit}"
        for value in (one.before, one.after)
    )
    return f"{factor}({before.strip()} before, {after.strip()} after)"


def _outcomes(found: Comparison, with_all: bool) -> Section:
    """The changes of outcomes. Cells that only one side has are listed without their models, unless `with_all`."""
    rows, alike = [], Counter[tuple[str, str, str, str]]()
    for one in found.outcomes:
        if with_all or one.kind not in (GONE, NEW):
            rows.append((one.kind, one.cell, one.before, one.after, one.detail))
        else:
            alike[one.kind, _path(one.cell), one.before, one.after] += 1
    for (kind, path, before, after), count in alike.items():
        rows.append((kind, f"{count} × */{path}", before, after, ""))
    return Section("Outcomes", ("change", "cell", "before", "after", "detail"), rows)


def _latencies(title: str, changes: Sequence[LatencyChange], note: str) -> Section:
    head = ("change", "cell", "before, ms", "after, ms", "ratio", "q", "smallest", "measured")
    rows = [
        (
            *(one.verdict, one.cell, milliseconds(one.before_ms), milliseconds(one.after_ms)),
            *(_ratio(one), f"{one.q:.2g}", f"{one.smallest:.3f}", one.basis),
        )
        for one in changes
    ]
    return Section(title, head, rows, (2, 3, 4, 5, 6), note)


def _not_compared(found: Comparison, with_all: bool) -> Section:
    """The cells with a reason. Those of several models with the same reason are listed without their models, unless
    `with_all`."""
    alike = Counter((_path(one.cell), one.why) for one in found.not_compared)
    rows: dict[tuple[str, str], None] = {}
    for one in found.not_compared:
        path = _path(one.cell)
        count = 1 if with_all else alike[path, one.why]
        rows[f"{count} × */{path}" if count > 1 else one.cell, one.why] = None
    return Section("Latencies not compared", ("cell", "why"), tuple(rows))


def _path(cell: str) -> str:
    """A cell without its model."""
    return cell.partition("/")[2]
