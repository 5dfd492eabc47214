"""Replays the journal of a run, and compares the time that its progress line would have said with the time that was left.

python -m benchmarks.time_left [--journal results/logs/journal.jsonl] [--budget-s 20]

--budget-s is the budget of a group in that run: 5 for a quick one. Jobs without a device are taken for known. The last run of the journal is taken. Jobs that ran no stage are not in it, so the time of the run is that until its last stage ended.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.measure.timing.turns import Rule
from scripts.run.progress import IDLE_S, JOURNAL, TIMED, TimeLeft
from scripts.supervise import journal
from scripts.supervise.outcome import UNAVAILABLE

SHARES = (0.1, 0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Replayed:
    """A job of a journal: its stage, and when it began and ended, in seconds since the run began. `is_idle`: whether it had nothing to
    do, for want of a device."""

    stage: str
    begun_s: float
    ended_s: float
    is_idle: bool = False


@dataclass(frozen=True)
class Said:
    """What would have been said after a share of a run. `left_s`: the truth."""

    share: float
    said_s: float
    left_s: float

    @property
    def error(self) -> float:
        """0.35 is 35 % too long."""
        return self.said_s / self.left_s - 1


def jobs_of(path: Path) -> list[Replayed]:
    """Return the jobs of the last run of a journal."""
    began, jobs = 0.0, []
    for entry in journal.entries(path):
        if "run" in entry:
            began, jobs = entry["start"], []
        else:
            ended = entry.get("end", entry["start"] + entry["child_seconds"])
            is_idle = entry["status"] == UNAVAILABLE or (
                entry["stage"] in TIMED and ended - entry["start"] < IDLE_S
            )
            jobs.append(Replayed(entry["stage"], entry["start"] - began, ended - began, is_idle))
    return jobs


def replayed(
    jobs: Sequence[Replayed], shares: Sequence[float] = SHARES, budget_s: float | None = None
) -> Iterator[Said]:
    """Yield what would have been said after shares of a run."""
    whole_s = max(job.ended_s for job in jobs)
    events = sorted(
        [(job.begun_s, 1, number) for number, job in enumerate(jobs)]
        + [(job.ended_s, 0, number) for number, job in enumerate(jobs)]
    )
    estimate = TimeLeft(budget_s)
    estimate.planned(Counter(job.stage for job in jobs))
    estimate.idle(Counter(job.stage for job in jobs if job.is_idle))
    for share in shares:
        now = share * whole_s
        while events and events[0][0] <= now:
            at, begins, number = events.pop(0)
            if begins:
                estimate.begun(number, jobs[number].stage, at)
            else:
                estimate.ended(number, at)
        yield Said(share, estimate.seconds(now), whole_s - now)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--journal", type=Path, default=JOURNAL)
    parser.add_argument("--budget-s", type=float, default=Rule.budget_s)
    args = parser.parse_args()
    jobs = jobs_of(args.journal)
    if not jobs:
        parser.error(
            f"{args.journal}: found no stage in its last run; expected the journal of a run"
        )
    for said in replayed(jobs, budget_s=args.budget_s):
        print(
            f"after {said.share:4.0%}: said {said.said_s:5.0f} s, left {said.left_s:5.0f} s, {said.error:+.0%}"
        )


if __name__ == "__main__":
    main()
