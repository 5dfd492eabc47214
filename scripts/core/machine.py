"""The cores, caches and CPU name of this machine, or of the part that this process may use."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
"""The kernel's information about each CPU (sysfs, Documentation/admin-guide/cputopology.rst)."""


def physical_cores() -> int:
    """The number of cores that this process may use.

    These are the CPUs of its affinity mask or cpuset. Hyper-threads of one core count once, if the
    kernel distinguishes them. A container's CPU quota limits the number.
    """
    cores = len({_core(cpu) for cpu in usable_cpus()})
    return max(1, min(cores, int(cgroup_cpus() or cores)))


def usable_cpus() -> list[int]:
    """The CPUs (hyper-threads) that this process may run on."""
    return sorted(os.sched_getaffinity(0))


def usable_cpu_count() -> int:
    """The number of CPUs (hyper-threads) that this process may keep busy: those it may run on, within a container's quota."""
    cpus = len(usable_cpus())
    return max(1, min(cpus, int(cgroup_cpus() or cpus)))


def _core(cpu: int) -> str:
    """An identifier of a CPU's core: the list of all its hyper-threads."""
    return _text(CPUS / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu)


def cache_bytes() -> int:
    """Bytes of the last-level cache per core; 0 if the kernel does not report it."""
    for level in (3, 2):
        cache = CPUS / f"cpu{usable_cpus()[0]}/cache/index{level}"
        size, sharing = _text(cache / "size"), _text(cache / "shared_cpu_list")
        if size.endswith("K") and size[:-1].isdecimal():
            shared = {_core(cpu) for cpu in _listed(sharing)}
            return int(size[:-1]) * 1024 // max(1, len(shared))
    return 0


def _listed(text: str) -> list[int]:
    """The numbers of a kernel's list: `0-2,8`."""
    cpus: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def _text(path: Path) -> str:
    """A file of one line; "" where there is none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def cgroup_cpus() -> float | None:
    """CPUs that a container may use (cgroup v2 cpu.max: "<quota> <period>"); None if unbounded."""
    quota, _, period = _text(Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    return int(quota) / int(period) if quota.isdecimal() else None


def cpu_name() -> str:
    """The CPU's own name, for example `AMD EPYC 7763 64-Core Processor`."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


def cpu_features() -> str:
    """The type of CPU and its instructions, as the kernel gives them. Programs that are compiled for this CPU may fail
    on one with another value."""
    wanted = (
        *("vendor_id", "cpu family", "model", "stepping", "flags"),  # x86
        *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),  # Arm
    )
    features = (f"{name} {value}" for name, value in _cpuinfo().items() if name in wanted)
    return "; ".join(features) or cpu_name()


@functools.cache
def _cpuinfo() -> dict[str, str]:
    """What the kernel says of the first CPU (proc(5), /proc/cpuinfo)."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}
