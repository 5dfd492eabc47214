"""Measures how much other processes and guests used the cores during a measurement."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator
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
        core_s = max(self.wall_s * (cores or os.cpu_count() or 1), 1e-9)

        def share(seconds: float) -> float:
            return round(min(1.0, max(0.0, seconds / core_s)), 4)

        return HostLoad(share(self.busy_s - self.own_s), share(self.steal_s))


@contextlib.contextmanager
def watched() -> Iterator[Load]:
    """The load of the machine by this process, its children and others while the context is open.

    It is unknown on which core the time of others was, so on a large machine their share of some cores may be too
    high, but never too low. Children count once they have been waited for, so leave the context after that.
    """
    load = Load()
    start, own_s, busy = time.monotonic(), _own_s(), machine_times()
    yield load
    load.own_s = _own_s() - own_s
    load.add(busy, machine_times(), time.monotonic() - start)


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
