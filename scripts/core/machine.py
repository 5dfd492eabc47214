"""The cores, caches and CPU name of this machine, or of the part that this process may use, and how busy others keep it."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core.commands import option

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


def cpu_vendor() -> str:
    """The vendor of the CPU in its own words, for example `GenuineIntel`; "" of one that is not x86."""
    return _cpuinfo().get("vendor_id", "")


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


def threads_option() -> Any:
    """The field for the number of CPU threads."""
    return option(factory=physical_cores, type=int, help="CPU threads (default: physical cores)")


@dataclass(frozen=True)
class HostLoad:
    """The load of the machine by others during a measurement, as shares (0 to 1) of the time of the cores
    that were measured on. `foreign`: other processes. `steal`: other guests of the hypervisor."""

    foreign: float
    steal: float


@dataclass
class MachineLoad:
    """What the machine did, in seconds: `busy_s` of all its CPUs, of which `own_s` were those of the measured processes,
    and `steal_s` that other guests of the hypervisor took; `wall_s` passed. `average`: the highest load average of a minute."""

    busy_s: float = 0.0
    steal_s: float = 0.0
    own_s: float = 0.0
    wall_s: float = 0.0
    average: float = 0.0

    def add(
        self, before: tuple[float, float] | None, after: tuple[float, float] | None, wall_s: float
    ) -> None:
        """Add the time between two values of machine_times."""
        if before and after:
            self.busy_s += after[0] - before[0]
            self.steal_s += after[1] - before[1]
            self.wall_s += wall_s
        self.average = max(self.average, round(os.getloadavg()[0], 1))

    def others(self, cores: int | None = None) -> HostLoad:
        """The load by others; `cores`: those that were measured on, None for all of the machine."""
        core_s = max(self.wall_s * (cores or os.cpu_count() or 1), 1e-9)

        def share(seconds: float) -> float:
            return round(min(1.0, max(0.0, seconds / core_s)), 4)

        return HostLoad(share(self.busy_s - self.own_s), share(self.steal_s))


@contextlib.contextmanager
def load_watched() -> Iterator[MachineLoad]:
    """The load of the machine by this process, its children and others while the context is open.

    It is unknown on which core the time of others was, so on a large machine their share of some cores may be too
    high, but never too low. Children count once they have been waited for, so leave the context after that.
    """
    load = MachineLoad()
    start, own_s, busy = time.monotonic(), _own_cpu_s(), machine_times()
    yield load
    load.own_s = _own_cpu_s() - own_s
    load.add(busy, machine_times(), time.monotonic() - start)


def _own_cpu_s() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def machine_times() -> tuple[float, float] | None:
    """The busy seconds of all CPUs since boot, and those that the hypervisor took, proc(5). None if the system is not
    Linux."""
    try:
        with open("/proc/stat", encoding="ascii") as stat:
            ticks = [int(field) for field in stat.readline().split()[1:9]]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
    hertz = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / hertz, steal / hertz
