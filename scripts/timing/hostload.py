"""Measures how much other processes and guests used the cores during a measurement."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class HostLoad:
    """The load of the machine by others during a measurement, as shares (0 to 1) of the time of the cores
    that were measured on. `foreign`: other processes. `steal`: other guests of the hypervisor."""

    foreign: float
    steal: float


@dataclass
class Load:
    """What the machine did, in seconds: `busy_s` of all its CPUs, of which `own_s` were those of the measured processes,
    and `steal_s` that other guests of the hypervisor took; `wall_s` passed."""

    busy_s: float = 0.0
    steal_s: float = 0.0
    own_s: float = 0.0
    wall_s: float = 0.0

    def add(
        self, before: tuple[float, float] | None, after: tuple[float, float] | None, wall_s: float
    ) -> None:
        """Add the time between two values of machine_times."""
        if before and after:
            self.busy_s += after[0] - before[0]
            self.steal_s += after[1] - before[1]
            self.wall_s += wall_s

    def others(self, cores: int | None = None) -> HostLoad:
        """The load by others; `cores`: those that were measured on, None for all of the machine."""
        core_s = self.wall_s * (cores or os.cpu_count() or 1)
        return shares(self.busy_s - self.own_s, self.steal_s, core_s)


class HostWatch:
    """Context that compares the machine's busy time with that of this process and its children.

    `cores`: number of cores that the measurement uses. The time of other processes on the whole machine
    is given as a share of these. It is unknown on which core it was, so on a large machine the share
    may be too high, but never too low. Children count once they have been waited for, so leave the
    context after that.
    """

    load: HostLoad

    def __init__(self, cores: int) -> None:
        self._cores = cores

    def __enter__(self) -> HostWatch:
        self._start, self._own, self._busy = time.monotonic(), _own_s(), machine_times()
        return self

    def __exit__(self, *_: object) -> None:
        load = Load(own_s=_own_s() - self._own)
        load.add(self._busy, machine_times(), time.monotonic() - self._start)
        self.load = load.others(self._cores)


def _own_s() -> float:
    """CPU seconds of this process and of the children that it has waited for."""
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


def shares(foreign_s: float, steal_s: float, core_s: float) -> HostLoad:
    """Seconds of other processes and of the hypervisor, as shares of `core_s`: wall seconds times the number
    of cores."""

    def share(seconds: float) -> float:
        return round(min(1.0, max(0.0, seconds / max(core_s, 1e-9))), 4)

    return HostLoad(share(foreign_s), share(steal_s))
