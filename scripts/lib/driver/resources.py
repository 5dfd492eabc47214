"""What a stage may use on this machine, and what it asks a cluster's scheduler for.

On one's own machine a stage may use what its limits allow, and so many run at once as cores and
memory bear. On a cluster what is asked for is waited for, so it is estimated from the size of the
model's weights and what the stages use, with room, and grows with each attempt. The last attempt has
all that the limits allow; where they say nothing of memory, the most of the estimates. Its outcome
is the row.
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

from scripts.lib.config import plugins
from scripts.lib.config.stages import Need
from scripts.lib.core.machine import physical_cores

MEMORY_SHARE = 0.8
"""Of the machine, for a stage whose limits say nothing of memory."""
MEMORY_MB_A_JOB = 4096
"""What exporting or compiling a model of some 100 M parameters peaks at, with room."""
ATTEMPTS = 3
"""Attempts until a stage has all that its limits allow: a profile's `retries` is one less, or more."""
GROWTH = 2
"""Each attempt asks for so many times more than the one before."""
CPUS = 2
"""Of an exporter or a compiler: most of their time is spent in one thread."""
UNKNOWN_WEIGHTS_MB = 1024
"""Taken for a model whose reference is not made yet."""
OVERHEAD_MB = 1024
"""Beside the stage in its job: the supervisor, and Snakemake twice."""
OVERHEAD_S = 60
"""Before and after the stage in its job: Snakemake twice, and files that appear late."""
_ROOM = 1.5
"""Times what a stage takes of its weights at least (_memory_factor)."""


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
    """What Slurm has allotted to this process; sites that do not confine jobs only say it."""
    value = os.environ.get(variable, "")
    return int(value) if value.isdecimal() else None


def memory_limit_mb(limit: Mapping[str, float]) -> int:
    """The memory limit of a stage in MiB: as configured, or a share of the machine's."""
    return int(limit.get("memory_mb") or MEMORY_SHARE * machine_memory_mb())


def slot_threads(cores: int | None) -> int:
    """Threads to claim for a job so that no more of them run than cores and memory allow.

    `snakemake --cores 8` on two cores would start eight compilers of two threads each.
    """
    slots = min(usable_cores(), machine_memory_mb() // MEMORY_MB_A_JOB)
    return max(1, math.ceil((cores or 1) / max(1, slots)))


def threads_beside(cores: int | None) -> int:
    """CPU threads that a job may compute with while all other slots are taken."""
    slots = max(1, (cores or 1) // slot_threads(cores))
    return max(1, usable_cores() // slots)


def jobs_per_slot(cores: int | None) -> int:
    """How many measurements may prepare where one job beside others has its slot: two where there
    are several slots, and memory for all of them."""
    slots = (cores or 1) // slot_threads(cores)
    return 2 if slots > 1 and machine_memory_mb() >= 2 * slots * MEMORY_MB_A_JOB else 1


@dataclass(frozen=True)
class Ask:
    """`memory_mb` and `timeout_s` hold the stage; `mem_mb` and `runtime` (minutes) are its job's,
    and hold the stage with what runs around it. `more_memory`, `more_time`: 1 where a further
    attempt has more."""

    memory_mb: int
    timeout_s: float
    mem_mb: int
    runtime: int
    more_memory: int = 0
    more_time: int = 0


def within_limits(memory_mb: int, timeout_s: float) -> Ask:
    """What a stage gets on one's own machine: all that its limits allow."""
    return Ask(memory_mb, timeout_s, memory_mb, _minutes(timeout_s))


def of(
    need: Need,
    limit: Mapping[str, float],
    weights_mb: float | None,
    attempt: int,
    budget_s: float = 0.0,
) -> Ask:
    """What a stage with this need asks a cluster for.

    `limit` is its entry of `limits` (timeout_s, and memory_mb where that is set), `weights_mb` the
    size of its model's weights, None where not known yet, `attempt` counts from 1, and `budget_s`
    is what a measurement (`need.repeats`) may take for its repetitions.
    """
    weights_mb = UNKNOWN_WEIGHTS_MB if weights_mb is None else weights_mb
    growth = GROWTH ** (min(attempt, ATTEMPTS) - 1)
    factor = _memory_factor(need.memory)
    memory_mb = growth * (need.base_mb + _ROOM * factor * weights_mb)
    repetitions_s = budget_s if need.repeats else 0.0
    timeout_s = growth * (need.base_s + need.s_a_gb * weights_mb / 1024 + repetitions_s)
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
        runtime=_minutes(timeout_s + OVERHEAD_S),
        more_memory=int(not last and memory_mb < at_most_mb),
        more_time=int(not last and timeout_s < limit["timeout_s"]),
    )


@functools.cache
def _memory_factor(memory: str) -> float:
    """What a stage takes by the bytes of the weights, by what its need says of that: the largest
    that an exporter or a runtime declares."""
    match memory:
        case "exporter":
            return max(exporter.memory_factor for exporter in plugins.exporters())
        case "runtime":
            return max(runtime.memory_factor for runtime in plugins.runtimes())
        case "weights":
            return 1.0
    return 0.0


def _minutes(seconds: float) -> int:
    return math.ceil(seconds / 60)
