"""What a stage may use on this machine, and what it requests from a cluster's scheduler.

On a single machine a stage may use what its limits allow, and as many stages run at a time as cores
and memory permit. On a cluster, a larger request waits longer. So it is estimated from the size of
the model's weights and the measured use of the stages, plus a margin, and grows with each attempt.
The last attempt gets all that the limits allow, or the largest estimate if they do not limit memory.
Its outcome becomes the row.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from scripts.config import plugins
from scripts.config.stages import Need
from scripts.core.machine import physical_cores

MEMORY_SHARE = 0.8
"""Share of the machine's memory for a stage without a memory limit."""
MEMORY_MB_A_JOB = 4096
"""Peak memory of exporting or compiling a model of about 100 M parameters, plus a margin."""
ATTEMPTS = 3
"""The attempt that gets all that the limits allow. The `retries` of a profile must be at least one less."""
GROWTH = 2
"""Factor between the requests of an attempt and the one before."""
CPUS = 2
"""CPUs for an exporter or a compiler, which spend most of their time in one thread."""
UNKNOWN_WEIGHTS_MB = 1024
"""Assumed for a model whose reference does not exist yet."""
OVERHEAD_MB = 1024
"""Memory of a job in addition to its stage: the supervisor, and Snakemake twice."""
OVERHEAD_S = 60
"""Time of a job in addition to its stage: Snakemake twice, and files that appear late."""
TRAINING = 13.0
"""Further memory of a stage that holds the results of a training step, as a multiple of the size of the weights.
Golden results alone are 6: gradients and changes of float32 weights, in float32 and float64. The gradients stage took
13 to 15 times the weights of the models of docs/training.md, a measurement 9 to 12. All with an optimizer without
state: where one with state needs more than the margin, a further attempt gets it."""
GROUP_MEMBERS = 6
"""Processes of a group, each with the weights of the model: three lowering paths, two baselines and the control."""
_ROOM = 1.5
"""Margin: the factor by which memory requests exceed what a stage needs for its weights (_memory_factor)."""


def machine_memory_mb() -> int:
    """Memory in MiB of this machine, of the container (cgroup v2) or of the Slurm job that this
    runs in."""
    total = psutil.virtual_memory().total
    with contextlib.suppress(OSError, ValueError):  # no cgroup v2, or "max"
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(total // 2**20, _slurm("SLURM_MEM_PER_NODE") or total)


def usable_cores() -> int:
    """Physical cores of this machine, its container or the step of a Slurm job that this runs in."""
    cores = physical_cores()
    return min(cores, _slurm("SLURM_CPUS_PER_TASK") or cores)


def _slurm(variable: str) -> int | None:
    """What Slurm has allotted to this process. On sites that do not enforce it, only this variable shows it."""
    value = os.environ.get(variable, "")
    return int(value) if value.isdecimal() else None


def memory_limit_mb(limit: Mapping[str, float]) -> int:
    """The memory limit of a stage in MiB: as configured, or a share of the machine's."""
    return int(limit.get("memory_mb") or MEMORY_SHARE * machine_memory_mb())


def slot_threads(cores: int | None) -> int:
    """Threads to claim for a job so that no more of them run than cores and memory allow, whatever `--cores` is."""
    at_most = min(usable_cores(), machine_memory_mb() // MEMORY_MB_A_JOB)
    return max(1, math.ceil((cores or 1) / max(1, at_most)))


def slots(cores: int | None) -> int:
    """How many ordinary jobs run at a time."""
    return max(1, (cores or 1) // slot_threads(cores))


def threads_beside(cores: int | None) -> int:
    """CPU threads that a job may compute with while all other slots are taken."""
    return max(1, usable_cores() // slots(cores))


@dataclass(frozen=True)
class Ask:
    """`memory_mb` and `timeout_s` are the limits of the stage. `mem_mb` (MiB) and `runtime` (minutes) are
    those of its job, which also contains the supervisor and Snakemake. `more_memory`, `more_time`:
    1 if a further attempt gets more."""

    memory_mb: int
    timeout_s: float
    mem_mb: int
    runtime: int
    more_memory: int = 0
    more_time: int = 0


def within_limits(memory_mb: int, timeout_s: float) -> Ask:
    """The resources of a stage on this machine: all that its limits allow."""
    return Ask(memory_mb, timeout_s, memory_mb, _minutes(timeout_s))


def request(
    need: Need,
    limit: Mapping[str, float],
    weights_mb: float | None,
    attempt: int,
    turns_s: float = 0.0,
    before_s: float = 0.0,
    training: bool = False,
) -> Ask:
    """What a stage with this need requests from a cluster.

    `limit` is its entry of `limits` (timeout_s, and memory_mb if that is set). `weights_mb` is the
    size of its model's weights, None if it is not known yet. `attempt` counts from 1. `turns_s` is
    the time of the turns of a group (`need.turns`). `before_s` is that of steps before
    the last one, for a job of several steps, each of which has the time limit. `training`: whether it handles a
    training step.
    """
    weights_mb = UNKNOWN_WEIGHTS_MB if weights_mb is None else weights_mb
    growth = GROWTH ** (min(attempt, ATTEMPTS) - 1)
    factor = _memory_factor(need.memory)
    if training and need.memory in ("weights", "runtime", "group"):
        factor += TRAINING
    memory_mb = growth * (need.base_mb + _ROOM * factor * weights_mb)
    taken_s = turns_s if need.turns else 0.0
    timeout_s = growth * (need.base_s + need.s_a_gb * weights_mb / 1024 + taken_s)
    last = attempt >= ATTEMPTS
    at_most_mb = limit.get("memory_mb", math.inf)
    if memory_mb > at_most_mb or (last and "memory_mb" in limit):
        memory_mb = at_most_mb
    if last or timeout_s > limit["timeout_s"]:
        timeout_s = limit["timeout_s"]
    return Ask(
        memory_mb=math.ceil(memory_mb),
        timeout_s=timeout_s,
        mem_mb=math.ceil(memory_mb) + OVERHEAD_MB,
        runtime=_minutes(timeout_s + OVERHEAD_S + before_s),
        more_memory=int(not last and memory_mb < at_most_mb),
        more_time=int(not last and timeout_s < limit["timeout_s"]),
    )


def of_batch(need: Need, limit: Mapping[str, float], attempt: int) -> Ask:
    """What a batch of problems requests from a cluster. `limit` applies to each problem, `need.base_s` to the whole batch; a job that
    took longer is continued by the next attempt. `attempt` counts from 1."""
    growth = GROWTH ** (min(attempt, ATTEMPTS) - 1)
    memory_mb = math.ceil(min(growth * need.base_mb, limit.get("memory_mb", math.inf)))
    timeout_s = limit["timeout_s"]
    runtime = _minutes(growth * need.base_s + timeout_s + OVERHEAD_S)
    return Ask(memory_mb, timeout_s, memory_mb + OVERHEAD_MB, runtime)


@functools.cache
def _memory_factor(memory: str) -> float:
    """Peak memory of a stage as a multiple of the size of the weights. `memory` is Need.memory; for
    exporters and runtimes it is the largest factor that one of them declares."""
    match memory:
        case "exporter":
            return max(exporter.memory_factor for exporter in plugins.exporters())
        case "group":
            return GROUP_MEMBERS * max(runtime.memory_factor for runtime in plugins.runtimes())
        case "runtime":
            return max(runtime.memory_factor for runtime in plugins.runtimes())
        case "weights":
            return 1.0
    return 0.0


def _minutes(seconds: float) -> int:
    return math.ceil(seconds / 60)
