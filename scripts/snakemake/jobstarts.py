"""Snakemake's limit on job starts (`--max-jobs-per-timespan`) without its busy loop.

Snakemake 9.27 starts a timer in each pass of its scheduler, and each timer causes another pass. Every
job that ends adds a timer (the loop of snakemake/snakemake#3744). After 150 jobs the scheduler of a
local run uses a quarter of a core, also during measurements. With hundreds of jobs ready, each pass
examines the inputs of a hundred of them, and the submitting Snakemake of a cluster run is always busy.
"""

from __future__ import annotations

import threading
from typing import Any

from scripts.snakemake.patch import Patch, needs

_SCHEDULER = "snakemake.scheduling.job_scheduler:JobScheduler"

NO_LIMIT = Patch(
    name="no limit on job starts",
    replaces="`JobScheduler.job_rate_limiter`",
    without="after some hundred jobs the scheduler uses up to a quarter of a core during measurements",
    runs="local",
    safe=True,
    needs=needs(_SCHEDULER, "job_rate_limiter"),
)

# The method's name is misspelt in Snakemake. If that is corrected, the patch is switched off with a
# warning.
ONE_TIMER = Patch(
    name="one timer at a time",
    replaces="`JobScheduler._schedule_reevalutation`",
    without="the submitting Snakemake uses up to a whole core of its machine",
    runs="cluster",
    safe=True,
    needs=(
        *needs(_SCHEDULER, "job_rate_limiter", "_open_jobs"),
        *needs(_SCHEDULER, _schedule_reevalutation="(self, delay)"),
        *needs("snakemake.scheduling.job_scheduler:JobRateLimiter", "_jobs"),
    ),
)


def lift(scheduler: Any) -> None:
    """Remove the limit: on one machine, the number of cores limits the jobs."""
    scheduler.job_rate_limiter = None


def calm(scheduler: Any) -> None:
    """Allow one timer at a time, and none if no job was started within a timespan.

    `scheduler` is a `snakemake.scheduling.job_scheduler.JobScheduler` before it schedules. The method
    that it calls in each pass, from one thread, is replaced.
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
