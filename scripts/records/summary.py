"""Print the summary of a run: time per stage, rows by status and stage, and the results table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from scripts.core.console import Console
from scripts.matrix import stages
from scripts.records import row_set, screen
from scripts.records.results_table import Table
from scripts.records.screen import plain_table
from scripts.run import outputs
from scripts.supervise import journal, outcome
from scripts.supervise.journal import Account

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
    console.print(screen.Screen(table, str(page)), "")
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
    return Group(Text(title, style="bold"), "", table(rows))


def table(rows: list[dict[str, str]]) -> RichTable:
    """Return the number of rows per status (down) and per stage that decided it (across)."""
    counts = Counter((row["status"], row["stage"]) for row in rows)
    deciding = [s for s in stages.folders() if any(stage == s for _, stage in counts)]
    shown = plain_table("status", *deciding, "all")
    for status in outcome.STATUSES:
        line = [counts[status, stage] for stage in deciding]
        if sum(line):
            shown.add_row(status, *(str(n) if n else "" for n in line), str(sum(line)))
    return shown
