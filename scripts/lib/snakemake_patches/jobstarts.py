"""Snakemake's limit on the starts of jobs (`--max-jobs-per-timespan`), without its busy loop.

Snakemake 9.27 arms a timer at each pass of its scheduler, and each timer makes a pass: there is one
more of them with every job that ends (the loop of snakemake/snakemake#3744). After 150 jobs the
scheduler of a local run takes a quarter of a core, beside measurements; with hundreds of jobs ready,
each pass looks at the inputs of a hundred of them, and the submitting side of a cluster never rests.
"""

from __future__ import annotations

import threading
from typing import Any


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
