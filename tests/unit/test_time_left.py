"""time_left: how long a run still takes, on runs with the stages' seconds of a default run (docs/performance.md)."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import time_left as replay
from benchmarks.time_left import Replayed
from scripts.run import progress
from scripts.run.progress import TimeLeft

STEPS = (
    # Stages whose jobs run beside each other, with the number of jobs and their seconds together.
    {"env": (4, 250)},
    {"reference": (16, 129), "export": (48, 356), "compile": (96, 781), "remedy": (16, 56), "verify": (80, 75)},
    {"baseline": (32, 550)},
)  # fmt: skip
ALONE = {"machine_limits": (1, 42), "time": (16, 868)}
"""Stages whose jobs run one at a time."""


def default_run(seed: int, slower: float = 1.0, cores: int = 2) -> list[Replayed]:
    """A default run, with jobs of very different lengths in random order. `slower`: the factor of all but environments and timings."""
    chance = random.Random(seed)

    def lengths(count: int, together_s: float, sigma: float) -> list[float]:
        drawn = [chance.lognormvariate(0, sigma) for _ in range(count)]
        return [together_s * each_s / sum(drawn) for each_s in drawn]

    jobs: list[Replayed] = []
    now = 0.0
    for step in STEPS:
        waiting = [
            (stage, seconds * (1 if stage == "env" else slower))
            for stage, (count, together_s) in step.items()
            for seconds in lengths(count, together_s, 1.0)
        ]
        if "env" not in step:
            chance.shuffle(waiting)
        free = [now] * (cores if "env" not in step else 3)
        for stage, seconds in waiting:
            slot = free.index(min(free))
            jobs.append(Replayed(stage, free[slot], free[slot] + seconds))
            free[slot] += seconds
        now = max(free)
    for stage, (count, together_s) in ALONE.items():
        for seconds in lengths(count, together_s, 0.35):
            jobs.append(Replayed(stage, now, now + seconds))
            now += seconds
    return jobs


@pytest.mark.parametrize("slower", [0.8, 1.0, 1.5])
@pytest.mark.parametrize("seed", range(10))
def test_a_default_run_is_known_within_a_third_from_its_tenth_on(seed, slower):
    for said in replay.replayed(default_run(seed, slower)):
        assert abs(said.error) <= 0.35, said


def test_a_slow_network_does_not_make_the_rest_of_a_run_long():
    estimate = TimeLeft()
    estimate.planned({"env": 1, "compile": 10})
    before_s = estimate.seconds(0) - progress.TYPICAL_S["env"]
    estimate.begun(1, "env", 0)
    estimate.ended(1, 1000)
    assert estimate.seconds(1000) == pytest.approx(before_s)


def test_what_builds_take_says_nothing_about_the_budget_of_a_group():
    estimate = TimeLeft(budget_s=4)
    estimate.planned({"compile": 1, "time": 3})
    estimate.begun(1, "compile", 0)
    estimate.ended(1, 1000)
    assert estimate.seconds(1000) == pytest.approx(3 * 4 * progress.PER_BUDGET)


def test_jobs_beside_each_other_share_the_time_that_passes():
    def left_s(beside: int) -> float:
        estimate = TimeLeft()
        estimate.planned({"compile": 20})
        for job in range(beside):
            estimate.begun(job, "compile", 0)
        for job in range(beside):
            estimate.ended(job, 8)
        return estimate.seconds(8) / (20 - beside)

    assert left_s(4) < left_s(2) < left_s(1)


def test_a_job_that_stopped_is_still_to_come():
    estimate = TimeLeft()
    estimate.planned({"compile": 2})
    before_s = estimate.seconds(0)
    estimate.begun(1, "compile", 0)
    estimate.stopped(1, 0)
    assert estimate.seconds(0) == pytest.approx(before_s)


def events() -> Iterator[st.SearchStrategy]:
    stage = st.sampled_from([*progress.TYPICAL_S, "no-stage"])
    yield st.lists(st.tuples(stage, st.floats(0, 1e4), st.floats(0, 1e4)), min_size=1, max_size=12)


@given(next(events()), st.floats(0, 1))
def test_some_time_is_left_as_long_as_a_job_is(drawn, share):
    jobs = [Replayed(stage, begun, begun + length) for stage, begun, length in drawn]
    whole_s = max(job.ended_s for job in jobs)
    if share * whole_s < whole_s:
        [said] = replay.replayed(jobs, [share])
        assert said.said_s > 0


def test_groups_without_a_device_take_no_time():
    """A third of the groups have one; the others end at once, before and between them."""
    estimate = TimeLeft(budget_s=20)
    estimate.planned({"time": 6})
    estimate.idle({"time": 4})
    group_s = 20 * progress.PER_BUDGET
    assert estimate.seconds(0) == pytest.approx(2 * group_s)
    now = 0.0
    for job, length_s in enumerate([0.1, 0.1, group_s, 0.1]):
        estimate.begun(job, "time", now)
        now += length_s
        estimate.ended(job, now)
    assert estimate.seconds(now) == pytest.approx(group_s)
