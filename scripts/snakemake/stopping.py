"""End a run after a job that a gate names: no further job starts, and running jobs may finish.

Snakemake does this when it receives a SIGTERM. If the signal were sent from here, its handler would
wait for a lock that the scheduler holds while it reports a finished job, and the run would hang. So
this module sets the handler's variable directly.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

from scripts.snakemake.patch import Patch, needs

STOPPING = Patch(
    name="stop after a row",
    replaces="writes `JobScheduler._user_kill`",
    without="a run with `stop_on` goes on to its end, and has exit code 1 there",
    runs="asked",
    safe=True,
    needs=needs("snakemake.scheduling.job_scheduler:JobScheduler", "_user_kill"),
)


class Stopping(logging.Handler):
    """Ends the run after the first job for whose outputs `problem` returns a message."""

    def __init__(self, scheduler: Any, problem: Callable[[Sequence[str]], str]) -> None:
        super().__init__()
        self._scheduler, self._problem = scheduler, problem
        self._outputs: dict[int, list[str]] = {}
        self._stopped = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            values = vars(record)
            if values.get("event") == LogEvent.JOB_INFO:
                self._outputs[values["jobid"]] = [str(file) for file in values["output"] or ()]
            elif values.get("event") == LogEvent.JOB_FINISHED and not self._stopped:
                self._look(self._outputs.pop(values["job_id"], []))
        except Exception:  # an exception here would end the run without its account
            self.handleError(record)

    def _look(self, outputs: Sequence[str]) -> None:
        if not (said := self._problem(outputs)):
            return
        self._stopped = True
        self._scheduler._user_kill = "graceful"
        print(
            f"stopping (stop_on): {said}\nNo further job starts, and no CSV is written. The same line goes on "
            "from here; without stop_on= it goes on to the CSV.",
            file=sys.stderr,
            flush=True,
        )
