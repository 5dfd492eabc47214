"""Who used the CPUs while we measured: this stage's own processes, or somebody else."""

from __future__ import annotations

import os
import resource
import time

from scripts.lib.timing.latency import HostLoad


class HostWatch:
    """Context that compares the machine's busy time with this process and its children's.

    Children count once they have been waited for, so leave the context after that.
    """

    load: HostLoad

    def __enter__(self) -> HostWatch:
        self._start = self._sample()
        return self

    def __exit__(self, *_: object) -> None:
        busy, steal, own, now = (b - a for a, b in zip(self._start, self._sample(), strict=True))
        capacity = max(now * (os.cpu_count() or 1), 1e-9)
        self.load = HostLoad(
            foreign=round(min(1.0, max(0.0, (busy - own) / capacity)), 4),
            steal=round(min(1.0, max(0.0, steal / capacity)), 4),
        )

    @staticmethod
    def _sample() -> tuple[float, float, float, float]:
        """(busy, steal, own CPU, wall) in seconds; busy and steal of all CPUs, proc(5)."""
        own = sum(
            usage.ru_utime + usage.ru_stime
            for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        )
        try:
            with open("/proc/stat", encoding="ascii") as stat:
                ticks = [int(field) for field in stat.readline().split()[1:9]]
        except OSError:  # not Linux: nothing is known, and nothing is claimed
            return own, 0.0, own, time.monotonic()
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
        hertz = os.sysconf("SC_CLK_TCK")
        busy = (user + nice + system + irq + softirq) / hertz
        return busy, steal / hertz, own, time.monotonic()
