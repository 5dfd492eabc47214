"""Snakemake's limit on the starts of jobs (`--max-jobs-per-timespan`), without its busy loop.

Snakemake 9.27 arms a timer at each pass of its scheduler, and each timer makes a pass: there is one
more of them with every job that ends (the loop of snakemake/snakemake#3744). After 150 jobs the
scheduler of a local run takes a quarter of a core, beside measurements; with hundreds of jobs ready,
each pass looks at the inputs of a hundred of them, and the submitting side of a cluster never rests.
"""

from __future__ import annotations

import threading
from typing import Any

from scripts.lib.snakemake_patches.patch import Patch, needs

_SCHEDULER = "snakemake.scheduling.job_scheduler:JobScheduler"

NO_LIMIT = Patch(
    name="no limit on job starts",
    replaces="`JobScheduler.job_rate_limiter`",
    without="after some hundred jobs the scheduler takes up to a quarter of a core beside measurements",
    runs="local",
    safe=True,
    needs=needs(_SCHEDULER, "job_rate_limiter"),
)

# The name is Snakemake's own (a letter is missing). Where it is spelt right some day, the patch is
# switched off and says so.
ONE_TIMER = Patch(
    name="one timer at a time",
    replaces="`JobScheduler._schedule_reevalutation`",
    without="the Snakemake that submits takes up to a whole core of its machine",
    runs="cluster",
    safe=True,
    needs=(
        *needs(_SCHEDULER, "job_rate_limiter", "_open_jobs"),
        *needs(_SCHEDULER, _schedule_reevalutation="(self, delay)"),
        *needs("snakemake.scheduling.job_scheduler:JobRateLimiter", "_jobs"),
    ),
)


def lift(scheduler: Any) -> None:
    """No limit: jobs of this machine are as many as its cores."""
    scheduler.job_rate_limiter = None


def calm(scheduler: Any) -> None:
    """One timer at a time, and none where no job was started for a timespan.

    `scheduler` is a `snakemake.scheduling.job_scheduler.JobScheduler` before it schedules. What it
    calls in each pass, from one thread, is replaced.
    """
    limiter = scheduler.job_rate_limiter
    if limiter is None:
        return
    armed = threading.Event()

    def wake() -> None:
        armed.clear()  # before the pass, which may have to arm the next one
        scheduler._open_jobs.release()

    def reevaluate(delay: float) -> None:
        # As the pass has left them, not pruned anew: a start that held a job back in this pass
        # and is too old by now must still be followed by another pass.
        if limiter._jobs and not armed.is_set():
            armed.set()
            timer = threading.Timer(delay, wake)
            timer.daemon = True
            timer.start()

    scheduler._schedule_reevalutation = reevaluate
