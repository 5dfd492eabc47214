"""Print the summary of a run: time per stage, rows by status and stage, and the results table."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from scripts.core import checkout
from scripts.features.kernels import screen as kernels_screen
from scripts.features.kernels.table import Kernels
from scripts.features.operators.report import records_file
from scripts.features.operators.report import screen as operators_screen
from scripts.features.operators.report.table import Table as OperatorsTable
from scripts.features.variants import tuned_page as tuning_page
from scripts.matrix import stages
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
    if outputs.is_written(records_file.CSV, began):
        show_operators(console)
    if (rows := outputs.written_rows(began)) is not None:
        console.print(counted(rows), "")
        if lines := list(compiled(rows)):
            console.print(*lines, "", sep="\n")
        console.print(Screen(results_table.Table.of(records())), "")
        for line in pointers(rows):
            console.print(line, soft_wrap=True)
    if (rows := outputs.written_rows(began, outputs.KERNEL_CSV)) is not None:
        console.print(counted(rows), "")
        console.print(kernels_screen.Screen(Kernels.of(list(records(outputs.KERNEL_JSONL)))), "")
        for line in pointers(rows, outputs.KERNEL_CSV):
            console.print(line, soft_wrap=True)

    if (rows := outputs.written_rows(began, outputs.TUNED_CSV)) is not None:
        console.print(counted(rows), "")
        for line in tuning_page.said(list(records(outputs.TUNED_JSONL))):
            console.print(line, soft_wrap=True)
        console.print()
        for line in pointers(rows, outputs.TUNED_CSV):
            console.print(line, soft_wrap=True)


def show_operators(console: Console) -> None:
    """Print the summary of the operator problems."""
    found = OperatorsTable(records_file.data(records_file.JSONL))
    console.print(operators_screen.Screen(found), "")
    console.print(f"results: {records_file.CSV}, {records_file.PAGE}", soft_wrap=True)


def records(path: Path = outputs.JSONL) -> Iterator[dict[str, Any]]:
    """Yield the records one at a time, because the records of a large matrix take gigabytes."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        yield from map(json.loads, lines)


def pointers(rows: list[dict[str, str]], table: Path = outputs.CSV) -> Iterator[str]:
    """Yield the paths of the results, and commands for failed and stale rows."""
    yield f"results: {table}, {table.with_suffix('.md')}"
    if any(row["status"] in outcome.FAILED for row in rows):
        yield f"failures: {failed_command()}"
    if stale := sum(row["stale"] == "True" for row in rows):
        yield f"{stale} rows were measured by older code; --config retry=stale measures them again"


def failed_command() -> str:
    """Return the command that lists the failures; it works in the current folder."""
    if checkout.is_here():
        return "vmfbench failed"
    return f"cd {checkout.ROOT} && vmfbench failed --results {Path('results').absolute()}"


def seconds(account: Account) -> Group:
    """Return a table of the time per stage."""
    made = account.environments >= 0.5
    environments = f"{account.environments:.0f} s of them to make environments; " if made else ""
    of = "rest" if made else "time"
    rest = f"no stage ran for {account.overhead:.0%} of the {of}"
    shown = plain_table()
    shown.add_column("stage")
    for column in ("runs", "start-up", "work"):
        shown.add_column(column, justify="right")
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
    shown = plain_table()
    shown.add_column("status")
    for stage in deciding:
        shown.add_column(stage, justify="right")
    shown.add_column("all", justify="right")
    for status in outcome.STATUSES:
        line = [counts[status, stage] for stage in deciding]
        if sum(line):
            shown.add_row(status, *(str(n) if n else "" for n in line), str(sum(line)))
    return shown
