"""Estimates how long a run still takes, from its jobs.

While n jobs run, each of them is charged 1/n of the time that passes, so the charges of all jobs add up to the wall time on
any number of cores. A job to come is expected to be charged what the jobs of its stage were in this run, and as long as these are few, what
TYPICAL_S says. For builds this is scaled as all builds of this run were, but neither for environments, which depend on the network, nor for timings, which
have a budget. `python -m benchmarks.time_left` replays the journal of a run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from scripts.matrix import stages
from scripts.matrix.stages import TIMING

TYPICAL_S = {
    "env": 27.0,
    "reference": 4.0,
    "export": 3.7,
    "compile": 4.1,
    "remedy": 0.3,
    "tune": 200.0,
    "baseline": 7.5,
    "verify": 0.4,
    "machine_limits": 40.0,
    "time": 50.0,
    "time_tuned": 50.0,
    "trace": 6.0,
    "operator_reference": 6.0,
    "operator_export": 8.0,
    "operator_compile": 10.0,
    "operator_verify": 8.0,
    "operator_baseline": 8.0,
    "operator_time": 80.0,
}
"""Seconds that a job of each stage is charged, in the default run on two cores (an Intel Xeon)."""
OTHER_S = 5.0
PER_BUDGET = 2.5
"""Seconds of a group per second of its budget: its processes are loaded and warmed up too."""
DOUBT_S = 300.0
"""Weight, in seconds, of the assumption that this machine builds as fast as that one. The first jobs read files that are not in
memory yet, and are those of the largest models."""
DOUBT_JOBS = 16
"""Weight, in jobs, of what is expected of a stage before its jobs have ended."""
IDLE_S = 0.5
"""A group that took less had no member to time (TimeLeft.idle)."""
LEAST_SHARE = 0.25
"""The share of its expected seconds that a job that runs still needs at least."""

TIMED = frozenset(stage.folder for stage in stages.STAGES.values() if TIMING in stage.aggregated)
"""Folders of the stages that time latencies."""


@dataclass
class _Job:
    stage: str
    charged_s: float = 0.0


class TimeLeft:
    """The jobs of a run. `budget_s`: the budget of a group (timing/turns.py); None if it is not known. Times are those of one clock, in
    seconds."""

    def __init__(self, budget_s: float | None = None) -> None:
        own = dict.fromkeys(("time", "time_tuned"), PER_BUDGET * budget_s) if budget_s else {}
        self._typical_s = TYPICAL_S | own
        self._to_come: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._charged_s: defaultdict[str, float] = defaultdict(float)
        self._running: dict[int, _Job] = {}
        self._now = 0.0

    def planned(self, jobs: Mapping[str, int]) -> None:
        """Set the number of jobs to come, by stage."""
        self._to_come = Counter(jobs)

    def idle(self, jobs: Mapping[str, int]) -> None:
        """Set how many of the jobs to come have nothing to do, by stage."""
        self._to_come.subtract(jobs)

    def begun(self, job: int, stage: str, now: float) -> None:
        """Report that a job has started."""
        self._charge(now)
        self._running[job] = _Job(stage)
        self._to_come[stage] -= 1

    def stopped(self, job: int, now: float) -> None:
        """Report that a job has ended without an outcome; it may be started again."""
        self._charge(now)
        self._to_come[self._running.pop(job).stage] += 1

    def ended(self, job: int, now: float) -> None:
        """Report that a job has ended."""
        self._charge(now)
        if ended := self._running.pop(job, None):
            if ended.stage in TIMED and ended.charged_s < IDLE_S:
                self._to_come[ended.stage] += 1  # it was none of those to come
                return
            self._ended[ended.stage] += 1
            self._charged_s[ended.stage] += ended.charged_s

    def seconds(self, now: float) -> float:
        """Return the seconds until the jobs that run and those to come have ended."""
        self._charge(now)
        left = sum(self._expected_s(stage) * count for stage, count in (+self._to_come).items())
        for job in self._running.values():
            expected_s = self._expected_s(job.stage)
            left += max(expected_s - job.charged_s, LEAST_SHARE * expected_s)
        return left

    def _charge(self, now: float) -> None:
        passed_s, self._now = now - self._now, now
        for job in self._running.values():
            job.charged_s += passed_s / len(self._running)

    def _expected_s(self, stage: str) -> float:
        """What a job of a stage is charged."""
        prior_s = self._typical(stage) * (self._slower() if _is_built(stage) else 1.0)
        return (DOUBT_JOBS * prior_s + self._charged_s[stage]) / (DOUBT_JOBS + self._ended[stage])

    def _slower(self) -> float:
        """How much longer builds took than typical ones. What a job that runs has been charged beyond that counts too."""
        charged_s = typical_s = DOUBT_S
        for stage, count in self._ended.items():
            if _is_built(stage):
                charged_s += self._charged_s[stage]
                typical_s += self._typical(stage) * count
        for job in self._running.values():
            if _is_built(job.stage):
                charged_s += max(0.0, job.charged_s - self._typical(job.stage))
        return charged_s / typical_s

    def _typical(self, stage: str) -> float:
        return self._typical_s.get(stage, OTHER_S)


def _is_built(stage: str) -> bool:
    return stage != "env" and stage not in TIMED
