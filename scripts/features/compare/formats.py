"""A comparison as text, Markdown, JSON, or annotations of GitHub Actions."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scripts.features.compare import outcomes
from scripts.features.compare.amounts import BY_KEY, AmountChange
from scripts.features.compare.compare import Comparison
from scripts.features.compare.latencies import LatencyChange
from scripts.features.compare.outcomes import OutcomeChange
from scripts.features.compare.sections import amount, ratio, sections, summary
from scripts.records import markdown

WIDTH = 160

Change = OutcomeChange | LatencyChange | AmountChange


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
        if one in alarms:
            yield _command("error", said, one.cell)
        elif said:
            yield _command("notice", said, one.cell)
    yield _command("notice", "\n".join(summary(found)), f"{found.before} → {found.after}")


def _said(one: Change) -> str:
    """A change in one line; "" for a latency of which no change was found."""
    match one:
        case OutcomeChange():
            detail = f": {one.detail}" if one.detail else ""
            return f"{one.kind} ({outcomes.KINDS[one.kind]}): {one.before or '–'} → {one.after or '–'}{detail}"  # fmt: skip
        case LatencyChange():
            return f"{one.verdict}: {ratio(one)}" if one.verdict in ("slower", "faster") else ""
        case AmountChange():
            return f"{BY_KEY[one.key].words}: {amount(one)}"


def _command(kind: str, message: str, title: str) -> str:
    """A workflow command. Its parts are escaped as @actions/core does it."""
    body = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    head = title.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    head = head.replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={head}::{body}"


FORMATS: dict[str, Callable[[Comparison, bool], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "json": as_json,
    "github": as_annotations,
}
