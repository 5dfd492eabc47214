"""Runs a job that a supervisor does itself, for its entry point: a person runs it without Snakemake."""

from __future__ import annotations

import math

from scripts.core import exits
from scripts.core.requests import Folders
from scripts.run import resources
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job


def run(stage: str, folders: Folders, artifact: str, work: supervise.Work) -> None:
    """Do the work of a job that a supervisor does itself, without limits of time, and write its status and log to the folder of
    the results. Exits with the reason of a failure."""
    folder = folders.results
    job = Job(
        stage=stage,
        cell=folder.name,
        status_path=folder / outcome.STATUS,
        log_path=folder / "log.txt",
        command=(),
        timeout_s=math.inf,
        memory_mb=resources.memory_limit_mb({}),
        artifacts=[folder / artifact],
    )
    ended = supervise.run(job, work)
    if ended.status != outcome.OK:
        exits.fail(ended.detail, reason=ended.reason)
