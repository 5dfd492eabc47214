"""What a stage may use: time and memory a job, and jobs a machine."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping
from pathlib import Path

import psutil

from scripts.lib.core.machine import physical_cores

MEMORY_SHARE = 0.8
MEMORY_MB_A_JOB = 4096
"""What exporting or compiling a model of some 100 M parameters peaks at, with room."""


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


def memory_mb(limit: Mapping[str, float]) -> int:
    """The memory limit of a stage in MiB: as configured, or a share of the machine's."""
    return int(limit.get("memory_mb") or MEMORY_SHARE * machine_memory_mb())


def slot_threads(cores: int | None) -> int:
    """Threads to claim for a job so that no more of them run than cores and memory allow.

    `snakemake --cores 8` on two cores would start eight compilers of two threads each.
    """
    slots = min(usable_cores(), machine_memory_mb() // MEMORY_MB_A_JOB)
    return max(1, math.ceil((cores or 1) / max(1, slots)))
