"""Print the summary of a run: time per stage, rows by status and stage, and the results table."""

from __future__ import annotations

import importlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from scripts.core import checkout
from scripts.matrix import feature, stages
from scripts.records import remedied, results_table
from scripts.records.screen import Screen, plain_table
from scripts.run import outputs
from scripts.supervise import journal, outcome
from scripts.supervise.journal import Account


def show(path: Path) -> None:
    """Print the summary of the last run.

    The tables of rows are printed only if that run wrote the rows, and the times only if it ran a
    stage. The most important part is printed last.
    """
    console = Console(stderr=True, highlight=False)
    account = journal.of_last_run(path, time.time())
    if account is None:
        return
    if account.stages:
        console.print(seconds(account), "")
    began = time.time() - account.wall
    if (rows := outputs.written_rows(began)) is not None:
        console.print(counted(rows), "")
        if lines := list(compiled(rows)):
            console.print(*lines, "", sep="\n")
        console.print(Screen(results_table.Table.of(records())), "")
        for line in pointers(rows):
            console.print(line, soft_wrap=True)
    for declared in feature.LOADED.values():
        if declared.summary:
            for shown in importlib.import_module(declared.summary).summary(began):
                console.print(shown, soft_wrap=isinstance(shown, str))


def of_table(
    shown: RenderableType, files: Sequence[Path], rows: list[dict[str, str]]
) -> Iterator[RenderableType]:
    """Yield the summary of a feature's rows: how many there are, `shown`, and where they are."""
    yield from (counted(rows), "", shown, "", *pointers(rows, files[0]))


def records(path: Path = outputs.JSONL) -> Iterator[dict[str, Any]]:
    """Yield the records one at a time, because the records of a large matrix take gigabytes."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        yield from map(json.loads, lines)


def pointers(rows: list[dict[str, str]], table: Path = outputs.CSV) -> Iterator[str]:
    """Yield the paths of the results, and commands for failed and stale rows."""
    yield f"results: {table}, {table.with_suffix('.md')}"
    if any(row["status"] in outcome.FAILED for row in rows):
        elsewhere = f"cd {checkout.ROOT} && vmfbench failed --results {Path('results').absolute()}"
        yield f"failures: {'vmfbench failed' if checkout.is_here() else elsewhere}"
    if stale := sum(row["stale"] == "True" for row in rows):
        yield f"{stale} rows were measured by older code; --config retry=stale measures them again"


def seconds(account: Account) -> Group:
    """Return a table of the time per stage."""
    made = account.environments >= 0.5
    environments = f"{account.environments:.0f} s of them to make environments; " if made else ""
    of = "rest" if made else "time"
    rest = f"no stage ran for {account.overhead:.0%} of the {of}"
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
    return Group(Text(title, style="bold"), "", table(rows))


def compiled(rows: list[dict[str, str]]) -> Iterator[str]:
    """Yield, per target, how its cells were compiled: nothing if all compiled as asked."""
    iree = [row for row in rows if row["runtime"] == "iree"]
    found = remedied.counts((row["target"], row["frontend_used"], row["remedy"]) for row in iree)
    if all(set(of) <= {remedied.WAYS[0]} for of in found.values()):
        return
    for target, of in found.items():
        yield f"compiled for {target}: " + ", ".join(f"{of[way]} {way}" for way in remedied.WAYS)


def table(rows: list[dict[str, str]]) -> Table:
    """Return the number of rows per status (down) and per stage that decided it (across)."""
    counts = Counter((row["status"], row["stage"]) for row in rows)
    deciding = [s for s in stages.folders() if any(stage == s for _, stage in counts)]
    shown = plain_table("status", *deciding, "all")
    for status in outcome.STATUSES:
        line = [counts[status, stage] for stage in deciding]
        if sum(line):
            shown.add_row(status, *(str(n) if n else "" for n in line), str(sum(line)))
    return shown
