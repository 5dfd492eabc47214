"""Measures how much other processes and guests used the cores during a measurement."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class HostLoad:
    """The load of the machine by others during a measurement, as shares (0 to 1) of the time of the cores
    that were measured on.

    `foreign`: other processes. `steal`: other guests of the hypervisor.
    """

    foreign: float
    steal: float


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
        self._start = self._sample()
        return self

    def __exit__(self, *_: object) -> None:
        busy, steal, own, now = (b - a for a, b in zip(self._start, self._sample(), strict=True))
        self.load = shares(busy - own, steal, now * self._cores)

    @staticmethod
    def _sample() -> tuple[float, float, float, float]:
        """(busy, steal, own CPU, wall) in seconds; busy and steal of all CPUs, proc(5)."""
        own = sum(
            usage.ru_utime + usage.ru_stime
            for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        )
        found = machine_times()
        if found is None:  # nothing is known, and nothing is claimed
            return own, 0.0, own, time.monotonic()
        return *found, own, time.monotonic()


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
