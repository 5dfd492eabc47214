"""What this machine, or the part of it that this process may use, has: cores, a CPU's name."""

from __future__ import annotations

import os


def physical_cores() -> int:
    """Cores that this process may use, hyper-threads counted once where that can be told."""
    import psutil

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = min(usable or 1, psutil.cpu_count(logical=False) or usable or 1)
    return max(1, min(cores, int(cgroup_cpus() or cores)))


def cgroup_cpus() -> float | None:
    """CPUs that a container may use (cgroup v2 cpu.max: "<quota> <period>"); None if unbounded."""
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def cpu_name() -> str:
    """The CPU's own name, for example `AMD EPYC 7763 64-Core Processor`."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            for line in info:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()
