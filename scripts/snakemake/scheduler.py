"""Patches of Snakemake's scheduler: job starts without a busy loop, an order of two parts, and an end of the run after a row.

Snakemake 9.27 starts a timer in each pass of its scheduler for its limit on job starts
(`--max-jobs-per-timespan`), and each timer causes another pass. Every job that ends adds a timer (the loop of
snakemake/snakemake#3744). After 150 jobs the scheduler of a local run uses a quarter of a core, also during
measurements. With hundreds of jobs ready, each pass examines the inputs of a hundred of them, and the submitting
Snakemake of a cluster run is always busy.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent


def lift(scheduler: Any) -> None:
    """Remove the limit on job starts: on one machine, the number of cores limits the jobs."""
    scheduler.job_rate_limiter = None


def calm(scheduler: Any) -> None:
    """Allow one timer at a time, and none if no job was started within a timespan.

    `scheduler` is a JobScheduler before it schedules. The method that it calls in each pass, from one thread, is
    replaced.
    """
    limiter = scheduler.job_rate_limiter
    if limiter is None:
        return
    armed = threading.Event()

    def wake() -> None:
        armed.clear()  # before the pass, which may have to arm the next one
        scheduler._open_jobs.release()

    def reevaluate(delay: float) -> None:
        # The starts as the pass has left them, without removing old ones: a start that held a job
        # back in this pass and has become too old must still cause another pass.
        if limiter._jobs and not armed.is_set():
            armed.set()
            timer = threading.Timer(delay, wake)
            timer.daemon = True
            timer.start()

    scheduler._schedule_reevalutation = reevaluate


def hold_back(scheduler: Any, is_later: Callable[[str, Mapping[str, str]], bool]) -> None:
    """Start the jobs for which `is_later` holds (the name of their rule, their wildcards) while no other job is ready or runs.

    A priority cannot do that: a job that needs all cores is chosen only when nothing else runs, and jobs with a lower
    priority would take each core that becomes free.
    """
    select = scheduler._job_selector

    def waits(job: Any) -> bool:
        return is_later(job.rule.name, dict(job.wildcards.items()))

    def select_of_first_part(jobs: Iterable[Any], *others: Any) -> Any:
        first = [job for job in jobs if not waits(job)]
        if first or not all(map(waits, scheduler.running)):
            return select(first, *others) if first else []
        return select(jobs, *others)

    scheduler._job_selector = select_of_first_part


class Stopping(logging.Handler):
    """Ends the run after the first job for whose outputs `problem` returns a message: no further job starts, and
    running jobs may finish.

    Snakemake does this when it receives a SIGTERM. If the signal were sent from here, its handler would wait for a
    lock that the scheduler holds while it reports a finished job. So the handler's variable is set directly.
    """

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
