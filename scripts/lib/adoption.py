"""Jobs that ended on a cluster while no Snakemake watched: taken over where they are what is wanted.

The Snakemake of a node notes that outputs are whole. What they were made with (params, inputs) is
recorded by the run that submitted the job, and that one was killed. Without the record Snakemake 9.27
takes such outputs as they are, whatever has changed since, and never runs them again for a param.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from scripts.lib import outcome


def adopt(dag: Any, persistence: Any, wait: Callable[[Coroutine], Any]) -> bool:
    """Record what ended unwatched; whether something has to be made again, and its status is gone.

    `dag` and `persistence` are the workflow's, `wait` runs a coroutine of theirs.
    """
    outdated = False
    for job in list(dag.jobs):
        status = next((Path(f) for f in job.output if f.endswith("/status.json")), None)
        if status is None or job.is_local or dag.needrun(job) or persistence.has_metadata(job):
            continue
        if is_what_would_be_run(job, status):
            wait(persistence.finished(job))
        else:
            status.unlink()
            outdated = True
    return outdated


def is_what_would_be_run(job: Any, status: Path) -> bool:
    """Whether a recorded outcome is of the command that the job has now, in the environment that
    is there now."""
    try:
        recorded = outcome.read(status)
    except ValueError:
        return False
    words = shlex.split(job.shellcmd)
    packages = [Path(file) for file in job.input.get("packages", [])]
    made = status.stat().st_mtime
    return shlex.split(recorded.command) == words[words.index("--") + 1 :] and all(
        file.stat().st_mtime <= made for file in packages
    )
