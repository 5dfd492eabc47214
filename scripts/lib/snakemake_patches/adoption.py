"""Jobs that ended on a cluster while no Snakemake watched: taken over where they are what is wanted.

The Snakemake of a node notes that outputs are whole. What they were made with (params, inputs) is
recorded by the run that submitted the job, and that one was killed. Without a record Snakemake 9.27
takes such outputs as they are, whatever has changed since, and never runs them again for a param;
with the record of an earlier run it makes them again, though they are what is wanted.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from scripts.lib.snakemake_patches.patch import Patch, needs
from scripts.lib.supervision import outcome

ADOPTION = Patch(
    name="jobs that ended unwatched",
    replaces="reads `DAG`, `Reason` and `Persistence`; calls `Persistence.finished`",
    without="after a killed run, outcomes of another configuration or code stay in the rows",
    runs="cluster",
    safe=False,
    needs=(
        *needs("snakemake.dag:DAG", "jobs", "dependencies"),
        *needs("snakemake.dag:DAG", needrun="(self, job)", reason="(self, job)"),
        *needs("snakemake.jobs:Job", "output", "input", "params", "shellcmd", "is_local"),
        *needs("snakemake.jobs:Reason", "updated_input", "updated_input_run", "input_changed"),
        *needs("snakemake.jobs:Reason", "missing_output", "incomplete_output", "forced"),
        *needs("snakemake.jobs:Reason", "code_changed", "software_stack_changed", "params_changed"),
        *needs("snakemake.persistence:PersistenceBase", has_metadata="(self, job)"),
        *needs("snakemake.persistence:PersistenceBase", finished="(self, job)"),
        *needs("snakemake.workflow:Workflow", "dag", async_run="(self, coro)"),
    ),
)


def adopt(dag: Any, persistence: Any, wait: Callable[[Coroutine], Any]) -> list[str]:
    """Record what ended unwatched; the status files for which what is to be done has to be found anew.

    It has where a job is on record with the params of before, and was to be run for those that it
    has already been run with; and where something has to be made again, whose status is taken away.
    `dag` and `persistence` are the workflow's, `wait` runs a coroutine of theirs.
    """
    anew = []
    for job in list(dag.jobs):
        status = next((Path(f) for f in job.output if f.endswith("/status.json")), None)
        due = dag.needrun(job)
        if status is None or job.is_local or not (due or not persistence.has_metadata(job)):
            continue
        # An environment that is to be made again, say, whose age is not looked at.
        outdated = any(dag.needrun(upstream) for upstream in dag.dependencies[job])
        if due and (outdated or not _for_its_params_alone(dag.reason(job))):
            continue
        if not outdated and is_what_would_be_run(job, status):
            wait(persistence.finished(job))
            if due:
                anew.append(str(status))
        elif not due:
            status.unlink()
            anew.append(str(status))
    return anew


def _for_its_params_alone(reason: Any) -> bool:
    """Whether a job is to be run because other params are on record, and for nothing else."""
    others = (
        *(reason.updated_input, reason.updated_input_run, reason.input_changed),
        *(reason.missing_output, reason.incomplete_output, reason.forced),
        *(reason.code_changed, reason.software_stack_changed),
    )
    return bool(reason.params_changed) and not any(others)


def is_what_would_be_run(job: Any, status: Path) -> bool:
    """Whether a recorded outcome is of the command that the job has now, asked for by what asks
    for it now, in the environment that is there now."""
    try:
        recorded = outcome.read(status)
    except ValueError:
        return False
    words = shlex.split(job.shellcmd)
    packages = [Path(file) for file in job.input.get("packages", [])]
    made = status.stat().st_mtime
    return (
        shlex.split(recorded.command) == words[words.index("--") + 1 :]
        and recorded.due == job.params.due
        and all(file.stat().st_mtime <= made for file in packages)
    )
