"""The lock of a run on results/, and the line of a finished job.

live.py prints the lines. The log file under .snakemake/log contains everything that Snakemake
prints.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from scripts.core import atomic
from scripts.matrix.matrix import Matrix
from scripts.supervise import journal, outcome

LOGS = Path("results/logs")
JOURNAL = LOGS / "journal.jsonl"


class RunLog:
    """Holds the lock of one run, and marks its start. `started`: whether this run has the lock."""

    def __init__(self) -> None:
        self._lock: TextIO | None = None
        self.started = False

    def start(self, matrix: Matrix) -> None:
        """Take the lock on results/ and write the matrix.

        The kernel releases the lock when the process ends, however it ends. Raises RuntimeError
        if another run holds it.
        """
        LOGS.mkdir(parents=True, exist_ok=True)
        self._lock = lock = (LOGS / "run.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise RuntimeError(
                f"another run (process {holder}) is writing to results/; wait for it or stop it"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self.started = True
        atomic.write_json(LOGS / "matrix.json", matrix.to_json())
        journal.begin(JOURNAL)


@dataclass(frozen=True)
class Finished:
    """A finished job: its line in a log, and its shorter failure line ("" if it did not fail)."""

    line: str
    failure: str = ""


def finished(rule: str, outputs: Sequence[str], done: int, total: int) -> Finished:
    """Return the lines of a finished job: outcome, seconds, and the reason of a failure.

    If a file of the stage is missing or cannot be read, the line says so.
    """
    counter = f"[{done:{len(str(total))}}/{total}]"
    status = next((Path(o) for o in outputs if o.endswith("status.json")), None)
    if status is None:
        return Finished(f"{counter} {rule}")
    try:
        ended = outcome.read(status)
    except (OSError, ValueError) as error:
        return Finished(_one_line(f"{counter} {rule}  {error}"), _one_line(f"{rule}: {error}"))
    seconds, broken = "?", ""
    try:
        if usage := outcome.read_usage(status):
            seconds = f"{usage.seconds:.1f}"
        else:
            broken = f"  {outcome.usage_path(status)} is missing"
    except (OSError, ValueError) as error:
        broken = f"  {error}"
    said = f"{counter} {ended.stage:14} {ended.cell:44} {ended.status:11} {seconds:>6} s"
    if ended.status == outcome.SKIPPED and ended.blocked_by:
        said += f"  blocked by {ended.blocked_by}"
    elif ended.status != outcome.OK:
        said += f"  {ended.reason}: {ended.detail}"
    if len(said) > (width := max(100, _width())):
        said = said[: width - 1] + "…"
    failure = ""
    if ended.status in outcome.FAILED:
        failure = f"{ended.stage} {ended.cell}: {ended.status} ({ended.reason}): {ended.detail}"
    return Finished(_one_line(said + broken), _one_line(failure or broken.strip()))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _width() -> int:
    return shutil.get_terminal_size((160, 24)).columns
