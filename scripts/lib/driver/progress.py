"""What a person sees of a run: a line a finished job, and a table at its end.

Snakemake prints some ten lines a job. This filter sits on its terminal handler for the time
of a run, lets errors and warnings through, and says the rest in one line a job. The log file
under .snakemake/log keeps everything.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sys
from pathlib import Path

from snakemake_interface_logger_plugins.common import LogEvent

from scripts.lib.config.matrix import Matrix
from scripts.lib.core import atomic
from scripts.lib.driver import summary
from scripts.lib.supervision import journal, outcome

LOGS = Path("results/logs")
JOURNAL = LOGS / "journal.jsonl"


class RunLog(logging.Filter):
    """Follows one run: holds its lock, prints its progress, closes with the summary."""

    def __init__(self) -> None:
        super().__init__()
        self._outputs: dict[int, tuple[str, list[str]]] = {}
        self._finished: list[int] = []
        self._lock = None
        self._started = False

    def start(self, matrix: Matrix, logger: logging.Logger) -> None:
        """Take the lock on results/, write down the matrix, and listen to Snakemake.

        The kernel drops the lock with the process, however that ends. Raises RuntimeError
        where another run holds it.
        """
        LOGS.mkdir(parents=True, exist_ok=True)
        self._lock = (LOGS / "run.lock").open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            holder = self._lock.read().strip() or "unknown"
            raise RuntimeError(
                f"another run (process {holder}) is writing to results/; wait for it or stop it"
            ) from None
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()
        self._started = True
        atomic.write_json(LOGS / "matrix.json", matrix.to_json())
        journal.begin(JOURNAL)
        for handler in logger.handlers:
            if not isinstance(handler, logging.FileHandler):
                handler.addFilter(self)

    def finish(self) -> None:
        """Print cells by status and stage, where the time went, and where the results are."""
        if self._started:
            summary.show(JOURNAL)

    def filter(self, record: logging.LogRecord) -> bool:
        """Print what a person wants to know of a record; let only problems through."""
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            self._outputs[record.jobid] = (record.rule_name, [str(o) for o in record.output])
            if record.rule_name == "make_env":  # minutes, the first time
                print(
                    f"making environment {record.wildcards['env']} …", file=sys.stderr, flush=True
                )
        elif event == LogEvent.JOB_FINISHED:
            self._finished.append(record.job_id)
        elif event == LogEvent.PROGRESS:
            for job in self._finished:
                print(self._line(job, record.done, record.total), file=sys.stderr, flush=True)
            self._finished.clear()
        return record.levelno >= logging.WARNING

    def _line(self, job: int, done: int, total: int) -> str:
        rule, outputs = self._outputs.get(job, ("", []))
        counter = f"[{done:{len(str(total))}}/{total}]"
        status = next((Path(o) for o in outputs if o.endswith("status.json")), None)
        if status is None or not status.is_file():  # in a bucket, say
            return f"{counter} {rule}"
        result = outcome.read(status)
        usage = outcome.read_usage(status)
        line = (
            f"{counter} {result.stage:9} {result.cell:44} {result.status:11} {usage.seconds:6.1f} s"
        )
        if result.status == outcome.SKIPPED and result.blocked_by:
            line += f"  blocked by {result.blocked_by}"
        elif result.status != outcome.OK:
            line += f"  {result.reason}: {result.detail}"
        return line if len(line) <= (width := max(100, _width())) else line[: width - 1] + "…"


def _width() -> int:
    return shutil.get_terminal_size((160, 24)).columns
