"""Estimate the remaining time of a run, from the share of the wall time of the jobs of each stage.

While n jobs run, each of them gets 1/n of the time that passes. The shares of all jobs add up to
the wall time, however many jobs ran in parallel. So the shares of the remaining jobs add up to the
remaining time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping

TYPICAL_S = {
    "env": 20.0,
    "reference": 6.0,
    "export": 3.5,
    "compile": 3.0,
    "remedy": 0.5,
    "tune": 200.0,
    "baseline": 5.0,
    "verify": 1.0,
    "time": 40.0,
    "time_tuned": 40.0,
    "trace": 6.0,
    "operator_reference": 6.0,
    "operator_export": 8.0,
    "operator_compile": 10.0,
    "operator_verify": 8.0,
    "operator_baseline": 8.0,
    "operator_time": 80.0,
}
"""Wall-time share in seconds of a job of each stage, in the default run on two cores. It is assumed
until one job of the stage has ended."""
OTHER_S = 5.0
ASSUMED_JOBS = 2
"""The assumption has the weight of this many finished jobs."""
DOUBT_S = 30.0
"""Weight, in seconds, of the assumption that this machine is as fast as assumed."""


class Shares:
    """The wall-time shares of jobs, per stage. Times are in seconds of any clock."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.jobs: Counter[str] = Counter()
        self._running: dict[Hashable, tuple[str, float]] = {}
        self._each, self._now = 0.0, 0.0

    def begin(self, job: Hashable, stage: str, now: float) -> None:
        """Report that a job of a stage has started."""
        self._pass(now)
        self._running[job] = stage, self._each

    def end(self, job: Hashable, now: float, counts: bool = True) -> None:
        """Report that a job has ended; a job that has not started is ignored.

        `counts` is False for a job that will run again.
        """
        self._pass(now)
        if job in self._running:
            stage, before = self._running.pop(job)
            if counts:
                self.seconds[stage] += self._each - before
                self.jobs[stage] += 1

    def running(self, now: float) -> list[tuple[str, float]]:
        """Return (stage, share in seconds so far) of each running job."""
        self._pass(now)
        return [(stage, self._each - before) for stage, before in self._running.values()]

    def _pass(self, now: float) -> None:
        if self._running:
            self._each += (now - self._now) / len(self._running)
        self._now = now


def left_s(to_come: Mapping[str, int], shares: Shares, now: float) -> float:
    """Return the seconds until the running jobs and the jobs `to_come` (per stage) end.

    A stage without a finished job is assumed to be slower or faster by the same factor as the others.
    """
    assumed = sum(_assumed_s(stage) * count for stage, count in shares.jobs.items())
    slower = (DOUBT_S + sum(shares.seconds.values())) / (DOUBT_S + assumed)

    def mean_s(stage: str) -> float:
        total = ASSUMED_JOBS * _assumed_s(stage) * slower + shares.seconds[stage]
        return total / (ASSUMED_JOBS + shares.jobs[stage])

    waiting = sum(mean_s(stage) * count for stage, count in to_come.items())
    return waiting + sum(max(0.0, mean_s(stage) - had) for stage, had in shares.running(now))


def _assumed_s(stage: str) -> float:
    return TYPICAL_S.get(stage, OTHER_S)
