"""What one submission to a cluster contains (concurrent stages, cores, group), and what its node leaves."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from scripts.snakemake.patch import Patch

UNWATCHED = Patch(
    name="jobs that end unwatched",
    replaces="`PersistenceBase.finished`, on nodes",
    without="after a killed run, outcomes of another configuration or code stay in the rows",
    runs="cluster",
)
ON_NODE = Patch(
    name="a node's Snakemake knows where it is",
    replaces="reads `Workflow.remote_exec`",
    without="a stage on a node may exceed the limits of its job",
    runs="cluster",
)
SIDE_BY_SIDE = Patch(
    name="stages side by side in a submission",
    replaces="calls `Workflow.register_resource`",
    without="measurements in one submission may run at the same time and disturb each other",
    runs="cluster",
)
GROUPS = Patch(
    name="groups of measurements",
    replaces="writes `Workflow.parent_groupids`",
    without="every measurement is a separate submission",
    runs="cluster",
)
CORES = Patch(
    name="cores of the node",
    replaces="`Workflow.global_resources` (`_cores`)",
    without="no job uses more cores than the submitting machine has",
    runs="cluster",
)


def leave_marks() -> None:
    """On a node, leave outputs marked as incomplete until the submitting Snakemake sees the end of their job.

    That Snakemake then records params and inputs, and removes the mark. If it was killed, Snakemake 9.27 would take
    outputs without mark and record as complete, and never compare their params again. With the mark, the next run
    repeats their jobs (`rerun-incomplete` of the default profile).
    """
    from snakemake.persistence import PersistenceBase

    async def finished(self: Any, job: Any) -> None:
        pass

    PersistenceBase.finished = finished


def accounting_problem(settings: Any) -> str:
    """What is wrong with Slurm's accounting, from which Snakemake's executor with these `settings` reads the state
    of its jobs; "" if nothing is.

    By default the executor uses sacct if that is installed. If sacct fails (most often because the site keeps no
    accounting), the executor waits for its jobs without a message.
    """
    command = getattr(settings, "status_command", None)
    if command != "sacct" or not shutil.which(command):
        return ""
    asked = [command, "--allocations", "--noheader", "--format=JobID"]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    if not ended.returncode:
        return ""
    return (
        f"{' '.join(asked)}: exit code {ended.returncode}: {ended.stderr.strip()}; where Slurm keeps "
        "no accounting, set `slurm-status-command: squeue` in workflow/profiles/slurm/profile.yaml"
    )
