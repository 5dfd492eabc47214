"""What a stage may use: time and memory a job, and jobs a machine."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path

import psutil

from scripts.lib.hostload import physical_cores

MEMORY_SHARE = 0.8
MEMORY_MB_A_JOB = 4096
"""What exporting or compiling a model of some 100 M parameters peaks at, with room."""


def machine_memory_mb() -> int:
    """Memory in MiB of this machine, or of the container (cgroup v2) that this runs in."""
    total = psutil.virtual_memory().total
    with contextlib.suppress(OSError, ValueError):  # no cgroup v2, or "max"
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total // 2**20


def memory_mb(limit: Mapping[str, float]) -> int:
    """The memory limit of a stage in MiB: as configured, or a share of the machine's."""
    return int(limit.get("memory_mb") or MEMORY_SHARE * machine_memory_mb())


def slot_threads(cores: int | None) -> int:
    """Threads to claim for a job so that no more of them run than cores and memory allow.

    `snakemake --cores 8` on two cores would start eight compilers of two threads each.
    """
    slots = min(physical_cores(), machine_memory_mb() // MEMORY_MB_A_JOB)
    return max(1, math.ceil((cores or 1) / max(1, slots)))
