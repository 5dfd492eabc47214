"""Jobs of a search beside each other."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any

from scripts.supervise import supervise
from scripts.supervise.job import Interrupted, Job

POLL_SECONDS = 0.2


def check(owner: int) -> None:
    """Raise Interrupted if the process that asked for the search is gone."""
    if os.getppid() != owner:
        raise Interrupted(f"process {owner} that asked for it is gone")


def beside(jobs: Iterator[Job], at_once: int, owner: int) -> Iterator[Job]:
    """Run jobs, `at_once` of them at a time, and yield each when it has ended.

    Each is run by a process forked from this one, which it notices to end. Raises Interrupted if the
    process `owner` is gone.
    """
    context = multiprocessing.get_context("fork")
    running: dict[Any, tuple[Any, Job]] = {}

    def start() -> None:
        while len(running) < at_once and (job := next(jobs, None)):
            child = context.Process(target=_run_one, args=(job,), daemon=True)
            child.start()
            running[child.sentinel] = child, job

    start()
    while running:
        for sentinel in wait(list(running), timeout=POLL_SECONDS):
            child, job = running.pop(sentinel)
            child.join()
            yield job
        check(owner)
        start()


def _run_one(job: Job) -> None:
    """Run a job, in a process of its own. One that is told to stop leaves no outcome."""
    try:
        supervise.run(job)
    except Interrupted:
        os._exit(143)
