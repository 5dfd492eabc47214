"""Snakemake's own scheduler, with and without its busy loop."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from snakemake.scheduling.job_scheduler import JobRateLimiter, JobScheduler
from snakemake.settings.types import MaxJobsPerTimespan

from scripts.run.snakemake import apply as patches

TIMESPAN = 0.1


@pytest.fixture
def scheduler():
    """What of a JobScheduler the limiter and its timers use: three starts in a tenth of a second."""
    limit = MaxJobsPerTimespan(3)
    limit.timespan = TIMESPAN
    made = SimpleNamespace(
        job_rate_limiter=JobRateLimiter(limit), _open_jobs=threading.Semaphore(0)
    )
    made._schedule_reevalutation = JobScheduler._schedule_reevalutation.__get__(made)
    return made


def one_pass(scheduler, ready: int) -> int:
    """A pass of JobScheduler.schedule: the jobs that it starts of those that are ready."""
    started = min(ready, scheduler.job_rate_limiter.get_free_jobs())
    scheduler.job_rate_limiter.register_jobs(started)
    scheduler._schedule_reevalutation(scheduler.job_rate_limiter.timespan)
    return started


def wakes(scheduler, most: int) -> int:
    """Wake-ups until there are no more, each followed by a pass without ready jobs."""
    woken = 0
    while woken < most and scheduler._open_jobs.acquire(timeout=10 * TIMESPAN):
        woken += 1
        one_pass(scheduler, ready=0)
    return woken


def test_snakemake_itself_never_stops_waking_up(scheduler):
    for _ in range(10):
        one_pass(scheduler, ready=0)
    assert wakes(scheduler, most=50) == 50


def test_a_start_is_followed_by_a_pass_and_then_by_none(scheduler):
    patches.calm(scheduler)
    one_pass(scheduler, ready=1)
    for _ in range(10):
        one_pass(scheduler, ready=0)
    assert wakes(scheduler, most=50) in (1, 2)


def test_jobs_that_the_limit_held_back_are_started_without_another_event(scheduler):
    patches.calm(scheduler)
    waiting = 10
    waiting -= one_pass(scheduler, waiting)
    assert waiting == 7
    while waiting:
        assert scheduler._open_jobs.acquire(timeout=50 * TIMESPAN), f"{waiting} wait for ever"
        started = one_pass(scheduler, waiting)
        assert started <= 3
        waiting -= started


def test_a_scheduler_without_a_limit_stays_as_it_is(scheduler):
    scheduler.job_rate_limiter = None
    before = scheduler._schedule_reevalutation
    patches.calm(scheduler)
    assert scheduler._schedule_reevalutation == before


def job(name: str, **wildcards: str) -> SimpleNamespace:
    """A job of a rule."""
    return SimpleNamespace(rule=SimpleNamespace(name=name), wildcards=wildcards)


def test_later_jobs_start_when_no_other_job_is_ready_or_runs():
    build, timed, later = job("compile"), job("time", device="cpu"), job("compile", device="cuda")
    asked = []

    def select(jobs, *others):
        asked.append((list(jobs), others))
        return jobs[:1]

    scheduler = SimpleNamespace(_job_selector=select, running=[])
    patches.hold_back(scheduler, lambda _, wildcards: wildcards.get("device") == "cuda")
    choose = scheduler._job_selector
    assert choose([build, later], "remaining", "cores") == [build]
    assert asked.pop() == ([build], ("remaining", "cores"))
    scheduler.running = [build]
    assert choose([later], "remaining", "cores") == [], "the timing is not ready yet"
    assert choose([timed, later], "remaining", "cores") == [timed]
    scheduler.running = [later]
    assert choose([later], "remaining", "cores") == [later]
    scheduler.running = []
    assert choose([later], "remaining", "cores") == [later]
