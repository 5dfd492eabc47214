"""The end of a run: cells by status and stage, where the time went, where the CSV is."""

from __future__ import annotations

import csv
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.lib.config import stages
from scripts.lib.supervision import journal, outcome

CSV = Path("results/latency.csv")


def show(path: Path) -> None:
    """Print the summary of the last run; the table only if that run wrote the CSV."""
    console = Console(stderr=True, highlight=False)
    account = journal.of_last_run(path, time.time())
    if account is None:
        return
    if CSV.exists() and CSV.stat().st_mtime >= time.time() - account.wall - 1:
        console.print(table(list(csv.DictReader(CSV.open(encoding="utf-8", newline="")))))
    took = account.stages
    shown = ", ".join(f"{s} {took[s]:.0f} s" for s in stages.folders() if s in took)
    console.print(
        f"{account.wall:.0f} s in all; after the environments ({account.environments:.0f} s), "
        f"{account.overhead:.0%} of it neither reference, exporter, compiler nor measurement\n({shown})"
    )
    if CSV.exists():
        console.print(f"rows: {CSV}   failed cells: python -m scripts.failed")


def table(rows: list[dict[str, str]]) -> Table:
    """Rows by status (down) and the stage that decided it (across)."""
    counts = Counter((row["status"], row["stage"]) for row in rows)
    deciding = [s for s in stages.folders() if any(stage == s for _, stage in counts)]
    verified = sum(row["verification_code"] == "PASS" for row in rows)
    shown = Table(title=f"{len(rows)} rows, {verified} with a verified latency", title_style="bold")
    shown.add_column("status")
    for stage in deciding:
        shown.add_column(stage, justify="right")
    shown.add_column("all", justify="right")
    for status in outcome.STATUSES:
        line = [counts[status, stage] for stage in deciding]
        if sum(line):
            shown.add_row(status, *(str(n) if n else "" for n in line), str(sum(line)))
    return shown
