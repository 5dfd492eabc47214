"""Where a run's wall time went, from the line that every supervised stage adds to a journal."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Spent:
    """Seconds of the child processes of a stage together, until they reported that their work begins (`startup`), and after that."""

    runs: int = 0
    startup: float = 0.0
    work: float = 0.0


@dataclass(frozen=True)
class Account:
    """Seconds of the last run in a journal.

    `environments`: wall time during which environments were made. `busy`: other wall time during which at least one
    reference, exporter, compiler or measurement ran. `stages`: the time of each stage (stages may overlap).
    """

    wall: float
    environments: float
    busy: float
    stages: dict[str, Spent]

    @property
    def overhead(self) -> float:
        """Share of the wall time, without that of the environments, during which no stage ran."""
        rest = self.wall - self.environments
        return max(0.0, 1 - self.busy / rest) if rest > 0 else 0.0


def begin(journal: Path) -> float:
    """Mark the start of a run, and return it in seconds since the epoch."""
    started = time.time()
    append(journal, {"run": os.getpid(), "start": started})
    return started


def append(journal: Path, entry: dict) -> None:
    """Add the line of a stage, in one write: lines of concurrent jobs do not mix (O_APPEND), but for those of different nodes."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    line = (json.dumps(entry) + "\n").encode()
    fd = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, line)
    finally:
        os.close(fd)


def entries(journal: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal that are whole: a killed process may have left one half-written, or the file be damaged."""
    for line in journal.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and ("run" in entry or "stage" in entry):
                seconds = ("start",) if "run" in entry else ("start", "child_seconds")
                if all(isinstance(entry.get(key), int | float) for key in seconds):
                    yield entry


def of_last_run(journal: Path, now: float) -> Account | None:
    """The account of the last run in the journal until `now` (see RunLog.now); None if no run has begun."""
    last: list[dict[str, Any]] = []
    start = None
    for entry in entries(journal):
        if "run" in entry:
            start, last = entry["start"], []
        else:
            last.append(entry)
    if start is None:
        return None
    stages: dict[str, Spent] = {}
    for entry in last:
        spent = stages.setdefault(entry["stage"], Spent())
        startup = entry.get("startup_s") or 0.0
        spent.runs += 1
        spent.startup += startup
        spent.work += entry["child_seconds"] - startup
    environments = _union(_interval(e) for e in last if e["stage"] == "env")
    both = _union(_interval(e) for e in last)
    wall = max(0.0, now - start)
    # Times of several machines, or from before and after a clock was set, may not fit.
    environments = min(environments, wall)
    return Account(wall, environments, min(both, wall) - environments, stages)


def _interval(entry: dict) -> tuple[float, float]:
    return entry["start"], entry.get("end", entry["start"] + entry["child_seconds"])


def _union(intervals: Iterable[tuple[float, float]]) -> float:
    """Total length that the intervals cover together."""
    total, end = 0.0, float("-inf")
    for a, b in sorted(intervals):
        total += max(0.0, b - max(a, end))
        end = max(end, b)
    return total
