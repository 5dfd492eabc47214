"""executors: no job is forgotten or given up, whatever the scheduler answers, and each is noted."""

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from scripts.run.snakemake import executors
from scripts.run.snakemake.executors import NOTES, Notes


@dataclass(frozen=True)
class Info:
    """What an executor knows of a job; one that the scheduler has refused has no id."""

    external_jobid: str | None
    job: str = "job"


class Plugin(RemoteExecutor):
    """Answers of a scheduler by job: active, success, error, or None for no answer at all."""

    def __init__(self, workflow, logger) -> None:
        self.logger = logger

    def run_job(self, job):
        raise NotImplementedError

    def cancel_jobs(self, active_jobs):
        raise NotImplementedError

    def report_job_success(self, job):
        self.reported.append((job.external_jobid, "success"))

    def report_job_error(self, job, msg=None):
        self.reported.append((job.external_jobid, "error"))

    async def check_active_jobs(self, active_jobs):
        for job in active_jobs:
            match self.answers[job]:
                case "active":
                    yield job
                case "success":
                    self.report_job_success(job)
                case "error":
                    self.report_job_error(job, msg="why")
        if self.broken:
            raise OSError("no controller")


class Executor(executors.Submitting, Plugin):
    """The plugin's executor, subclassed."""

    def __init__(self, answers: dict, broken: bool = False) -> None:
        self.warnings, self.notes = [], Notes()
        super().__init__(None, SimpleNamespace(warning=self.warnings.append))
        self.answers = {Info(job): answer for job, answer in answers.items()}
        self.broken, self.reported = broken, []


def asked(executor) -> tuple[set, list[str]]:
    """(jobs that stay active, warnings) of one round of a watched executor."""

    async def one_round():
        asked = list(executor.answers)
        return [job.external_jobid async for job in executor.check_active_jobs(asked)]

    return asyncio.run(one_round()), executor.warnings


JOBS = st.dictionaries(st.text(min_size=1), st.sampled_from(["active", "success", "error", None]))


@given(JOBS, st.booleans())
def test_every_job_is_active_or_reported_and_never_both(answers, broken):
    executor = Executor(answers, broken)
    active, _ = asked(executor)
    ended = [job for job, _ in executor.reported]
    assert sorted([*active, *ended]) == sorted(answers)
    assert dict(executor.reported) == {
        j: a for j, a in answers.items() if a in ("success", "error")
    }


@pytest.mark.parametrize("broken", [True, False])
def test_a_round_without_an_answer_is_said_with_its_reason(broken):
    _, (warning,) = asked(Executor({"a": None, "b": None, "c": "success"}, broken))
    assert warning.startswith("the scheduler did not report 2 submitted job(s)")
    assert (": no controller; asking again" in warning) == broken


def test_a_job_that_was_reported_in_an_earlier_round_is_not_taken_for_ended():
    """Ids of objects come again: those of one round tell nothing of the next."""
    executor, info = Executor({"a": "success"}), Info("a")

    async def one_round():
        return [job async for job in executor.check_active_jobs([info])]

    assert asyncio.run(one_round()) == []
    executor.answers[info] = None
    assert asyncio.run(one_round()) == [info]


def test_a_refused_submission_counts_after_a_pause_only(monkeypatch):
    executor = Executor({})
    pauses = []
    monkeypatch.setattr(
        executors.threading, "Timer", lambda *timer: pauses.append(timer) or Timer()
    )
    executor.report_job_error(Info(None), msg="no controller")
    assert executor.reported == []
    assert executor.warnings == [
        "a submission was refused; this counts as an attempt in 60 s: no controller"
    ]
    ((seconds, report),) = pauses
    assert seconds == executors.REFUSED_PAUSE_S
    report()
    assert executor.reported == [(None, "error")]


class Timer:
    """A threading.Timer that does not start."""

    def start(self):
        assert self.daemon


class Named(RemoteExecutor):
    """An executor that calls all of its jobs by one name and records what it was told."""

    def __init__(self, workflow, logger) -> None:
        self.said = []
        self.__post_init__()

    def __post_init__(self):
        self.run_uuid = "of-this-run"

    def run_job(self, job):
        raise NotImplementedError

    def run_jobs(self, jobs):
        self.said.append(("given", *jobs))

    def cancel_jobs(self, active_jobs):
        raise NotImplementedError

    async def check_active_jobs(self, active_jobs):
        raise NotImplementedError
        yield

    def report_job_submission(self, job_info, register_job=True):
        self.said.append(("submitted", job_info.job, register_job))

    def report_job_success(self, job_info):
        self.said.append(("ended", job_info.job))

    def report_job_error(self, job_info, msg=None, **kwargs):
        self.said.append(("failed", job_info.job, msg, kwargs))


@pytest.fixture
def noting(tmp_path, monkeypatch):
    """An executor that notes its jobs, in a run that has not begun."""
    monkeypatch.chdir(tmp_path)
    return type("Executor", (executors.Submitting, Named), {"notes": Notes()})(None, None)


def test_every_submission_is_noted_once_beside_the_runs_name(noting):
    NOTES.parent.mkdir(parents=True)
    NOTES.write_text("of an earlier run\n")
    noting.notes.add("10")
    assert NOTES.read_text() == "of an earlier run\n"
    noting.notes.begin()
    for job, jobid in (("a", "11"), ("b", "11"), ("c", "12"), ("local", None)):
        noting.report_job_submission(Info(jobid, job), register_job=job != "b")
    assert NOTES.read_text() == "of-this-run\n11\n12\n"
    assert noting.said == [("submitted", job, job != "b") for job in ("a", "b", "c", "local")]


def test_notes_are_forgotten_once_every_job_has_ended(noting):
    noting.notes.begin()
    noting.run_jobs(["a", "b"])
    noting.report_job_success(Info("11", "a"))
    noting.notes.end()
    assert NOTES.exists()
    noting.report_job_error(Info("12", "b"), msg="why", aux_logs=["x"])
    noting.notes.end()
    assert not NOTES.exists()
    ended = [("ended", "a"), ("failed", "b", "why", {"aux_logs": ["x"]})]
    assert noting.said == [("given", "a", "b"), *ended]


def test_a_run_that_did_not_begin_leaves_the_notes_of_the_one_before(noting):
    NOTES.parent.mkdir(parents=True)
    NOTES.write_text("11\n")
    noting.notes.end()
    assert NOTES.read_text() == "11\n"
