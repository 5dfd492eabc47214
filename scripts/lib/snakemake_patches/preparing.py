"""More jobs than cores, where most of them only wait.

A measurement prepares beside others (it loads a model, it may compile) and then waits until nothing
else runs. Snakemake counts it as running meanwhile: with as many jobs as cores, a core is idle
whenever one measurement waits for another's long preparation. So there may be twice as many jobs, of
which each that works from its start to its end counts twice.
"""

from __future__ import annotations

from typing import Any

from scripts.lib.snakemake_patches.patch import Patch, needs

PREPARING = Patch(
    name="measurements prepare ahead",
    replaces="`JobScheduler.resources` and `global_resources` (`_cores`)",
    without="a core is idle while a measurement waits to be alone",
    runs="local",
    safe=True,
    needs=needs("snakemake.scheduling.job_scheduler:JobScheduler", "resources", "global_resources"),
)


def admit(scheduler: Any, times: int) -> None:
    """Let a scheduler that has not yet scheduled start `times` as many jobs of one thread."""
    for held in (scheduler.resources, scheduler.global_resources):
        held["_cores"] *= times
