"""What one submission to a cluster contains: concurrent stages, cores, group."""

from __future__ import annotations

from typing import Any

from scripts.snakemake.executors import SUBCLASSED
from scripts.snakemake.patch import Patch, needs

_WORKFLOW = "snakemake.workflow:Workflow"

ON_NODE = Patch(
    name="a node's Snakemake knows where it is",
    replaces="reads `Workflow.remote_exec`",
    without="a stage on a node may exceed the limits of its job",
    runs="cluster",
    safe=False,
    needs=needs(_WORKFLOW, "remote_exec"),
)
SIDE_BY_SIDE = Patch(
    name="stages side by side in a submission",
    replaces="calls `Workflow.register_resource`",
    without="measurements in one submission may run at the same time and disturb each other",
    runs="cluster",
    safe=False,
    needs=needs(_WORKFLOW, register_resource="(self, name, value)"),
)
GROUPS = Patch(
    name="groups of measurements",
    replaces="writes `Workflow.parent_groupids`",
    without="every measurement is a separate submission",
    runs="cluster",
    safe=True,
    needs=needs(_WORKFLOW, "parent_groupids"),
)
CORES = Patch(
    name="cores of the node",
    replaces="`Workflow.global_resources` (`_cores`), `RemoteExecutor.cores`",
    without="no job uses more cores than the submitting machine has",
    runs="cluster",
    safe=True,
    needs=(
        *SUBCLASSED,
        *needs(_WORKFLOW, "global_resources"),
        *needs("snakemake_interface_executor_plugins.executors.remote:RemoteExecutor", "cores"),
    ),
)


def forget_own_cores(workflow: Any) -> None:
    """Do not limit jobs to the cores of the submitting machine.

    Snakemake evaluates the resources of a job again before it starts the job, so doing this when the
    run starts is early enough. Which executor it uses is not known any earlier.
    """
    workflow.global_resources["_cores"] = None
