"""Takes over the results of cluster jobs that finished while the submitting Snakemake was not running.

After a run was killed, its jobs on the nodes go on. The Snakemake on the node records that their
outputs are complete. The params and inputs with which they were made would be recorded by the
submitting Snakemake, which no longer runs. If there is no record, Snakemake 9.27 accepts such outputs
even if params have changed since, and never runs them again for a changed param. If there is the
record of an earlier run, it repeats them, although they may be just what this run wants.

So the next run compares each such outcome with the command, code and environment that it would use
itself. It records the outcome if they agree, and repeats the stage if they do not.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from scripts.snakemake.patch import Patch, needs
from scripts.supervise import outcome

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
    """Record the outcomes of unwatched jobs. Returns the status files because of which Snakemake has to
    plan again.

    It has to plan again if it had planned to run a job because of changed params and the job has
    already run with these params, and if an outcome is outdated, whose status file is deleted here.
    `dag` and `persistence` are those of the workflow; `wait` runs one of their coroutines.
    """
    anew = []
    for job in list(dag.jobs):
        status = next((Path(f) for f in job.output if f.endswith("/status.json")), None)
        due = dag.needrun(job)
        if status is None or job.is_local or not (due or not persistence.has_metadata(job)):
            continue
        # For example an environment that will be made again; its age alone would not count.
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
    """Whether changed params are the only reason to run a job."""
    others = (
        *(reason.updated_input, reason.updated_input_run, reason.input_changed),
        *(reason.missing_output, reason.incomplete_output, reason.forced),
        *(reason.code_changed, reason.software_stack_changed),
    )
    return bool(reason.params_changed) and not any(others)


def is_what_would_be_run(job: Any, status: Path) -> bool:
    """Whether a recorded outcome comes from the command, the `due` and the environment that the job has
    now."""
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
