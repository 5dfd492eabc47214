"""orphans: jobs that a killed run has left in a queue are cancelled and waited for."""

import os
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from scripts.snakemake import orphans

SETTINGS = SimpleNamespace(status_cmd="./status", cancel_cmd="./cancel now")


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A queue in a folder: a file for each job that runs; `left(…)` notes jobs as Snakemake does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(orphans, "POLL_SECONDS", 0.01)
    scripts = {
        "status": 'if [ -f "jobs/$1" ]; then echo running; else echo success; fi',
        "cancel": 'shift; for j in "$@"; do rm "jobs/$j"; echo "$j" >> cancelled; done',
        "squeue": 'for j in $(ls jobs); do echo "$j $j $(cat "jobs/$j")"; done',
        "scancel": 'for j in "$@"; do rm "jobs/$j"; echo "$j" >> cancelled; done',
    }
    for name, body in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "jobs").mkdir()

    def left(*noted, running=()):
        notes = tmp_path / orphans.NOTES
        notes.parent.mkdir(parents=True, exist_ok=True)
        notes.write_text("".join(f"{job}\n" for job in noted))
        for job in running:
            (tmp_path / "jobs" / job).touch()

    left.folder = tmp_path
    left.cancelled = lambda: (tmp_path / "cancelled").read_text().split()
    return left


@pytest.mark.parametrize("executor", ["slurm", "cluster-generic"])
def test_what_still_runs_is_cancelled_and_nothing_else(queue, executor, capsys):
    queue("11", "12", "13", running=("12", "13", "99"))
    assert orphans.stop(executor, SETTINGS) == ["12", "13"]
    assert queue.cancelled() == ["12", "13"]
    assert "cancelling 2 job(s) that an earlier run has left: 12, 13" in capsys.readouterr().err
    assert [path.name for path in queue.folder.glob("jobs/*")] == ["99"]


@pytest.mark.parametrize("noted", [(), ("11",)])
def test_where_nothing_is_left_nothing_is_cancelled(queue, noted):
    queue(*noted)
    assert not orphans.stop("slurm", None)
    assert not (queue.folder / "cancelled").exists()


class Plugin(RemoteExecutor):
    """An executor that calls all of its jobs by one name and says what it was told."""

    def __init__(self) -> None:
        self.workflow = SimpleNamespace(executor_settings=SimpleNamespace(submit_cmd="./submit"))
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
def executor(queue):
    """An executor that notes, in a run that has begun."""
    notes = orphans.Notes()
    made = type("Executor", (orphans.Noting, Plugin), {"notes": notes})()
    notes.begin()
    return made


def info(job: str, jobid: str | None = None) -> SubmittedJobInfo:
    return SubmittedJobInfo(job, external_jobid=jobid)


def test_every_submission_is_noted_once_beside_the_runs_name(queue):
    queue("of an earlier run")
    notes = orphans.Notes()
    executor = type("Executor", (orphans.Noting, Plugin), {"notes": notes})()
    assert (queue.folder / orphans.NOTES).read_text() == "of an earlier run\n"
    notes.begin()
    for job, jobid in (("a", "11"), ("b", "11"), ("c", "12"), ("local", None)):
        executor.report_job_submission(info(job, jobid), register_job=job != "b")
    assert (queue.folder / orphans.NOTES).read_text() == "of-this-run\n11\n12\n"
    said = [("submitted", job, job != "b") for job in ("a", "b", "c", "local")]
    assert executor.said == said


def test_a_job_that_was_not_noted_any_more_is_found_by_its_runs_name(queue, executor):
    for number, name in (("11", "of-this-run"), ("12", "of-another")):
        (queue.folder / "jobs" / number).write_text(name)
    assert orphans.stop("slurm", None)
    assert queue.cancelled() == ["11"]


def test_notes_are_forgotten_once_every_job_has_ended(queue, executor):
    executor.run_jobs(["a", "b"])
    executor.report_job_success(info("a", "11"))
    executor.notes.end()
    assert (queue.folder / orphans.NOTES).exists()
    executor.report_job_error(info("b"), msg="why", aux_logs=["x"])
    executor.notes.end()
    assert not (queue.folder / orphans.NOTES).exists()
    ended = [("ended", "a"), ("failed", "b", "why", {"aux_logs": ["x"]})]
    assert executor.said == [("given", "a", "b"), *ended]


def test_a_run_that_did_not_begin_leaves_the_notes_of_the_one_before(queue):
    queue("11")
    orphans.Notes().end()
    assert (queue.folder / orphans.NOTES).read_text() == "11\n"


def test_a_run_that_submits_nothing_is_refused_while_jobs_may_be_left(queue):
    orphans.refuse()
    queue("11")
    with pytest.raises(orphans.StillRunning, match="give its command again"):
        orphans.refuse()
    (queue.folder / orphans.NOTES).unlink()
    orphans.refuse()


def test_a_job_that_does_not_end_stops_the_run(queue, monkeypatch):
    queue("11", running=("11",))
    monkeypatch.setattr(orphans, "PATIENCE_SECONDS", 0.05)
    (queue.folder / "scancel").write_text("#!/bin/sh\n")
    with pytest.raises(orphans.StillRunning, match="cancelled, and still in the queue: 11"):
        orphans.stop("slurm", None)


def test_a_command_that_fails_says_what_it_said(queue):
    queue("11")
    (queue.folder / "squeue").write_text("#!/bin/sh\necho no controller >&2; exit 1\n")
    with pytest.raises(orphans.StillRunning, match="exit code 1: no controller"):
        orphans.stop("slurm", None)


def test_an_executor_that_cannot_tell_says_what_to_do(queue):
    queue("11")
    with pytest.raises(
        orphans.StillRunning, match=r"\(11\).*make sure that they have ended, then remove"
    ):
        orphans.stop("kubernetes", SimpleNamespace())
    (queue.folder / orphans.NOTES).unlink()
    orphans.stop("kubernetes", SimpleNamespace())


def submit(queue, body: str) -> None:
    """Write the submit command of the cluster, which gets a job script."""
    (queue.folder / "submit").write_text(f"#!/bin/sh\n{body}\n")
    (queue.folder / "submit").chmod(0o755)


def submitted(executor) -> subprocess.Popen:
    """Submit a job as the cluster-generic executor does, in a separate run."""
    command = executor.workflow.executor_settings.submit_cmd
    line = f'{command} "job.sh"; exit $?'
    return subprocess.Popen(
        line, shell=True, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for(path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)


def test_a_submission_notes_its_job_by_itself_and_hands_on_what_it_prints(queue, executor):
    submit(queue, 'echo "21"; echo "script $1"')
    run = submitted(executor)
    assert (run.communicate(timeout=20)[0], run.returncode) == ("21\nscript job.sh\n", 0)
    executor.report_job_submission(info("a", "21"))
    executor.report_job_submission(info("b", "22"))
    noted = (queue.folder / orphans.NOTES).read_text().split()
    assert noted[0] == "of-this-run"
    assert set(noted[1:]) == {"21", "22"}


def test_a_submission_that_fails_notes_nothing_and_fails(queue, executor):
    submit(queue, 'echo "quota exceeded"; exit 3')
    run = submitted(executor)
    assert (run.communicate(timeout=20)[0], run.returncode) == ("quota exceeded\n", 3)
    assert (queue.folder / orphans.NOTES).read_text() == "of-this-run\n"


def test_a_submit_command_may_be_any_line_of_a_shell(queue, executor):
    submit(queue, 'echo "$SIZE-$2"')
    line = "SIZE=$(( 2 * 4 )) ./submit 'an option'"
    executor.workflow.executor_settings.submit_cmd = orphans.noted(line, executor.notes.path)
    assert submitted(executor).communicate(timeout=20)[0] == "8-job.sh\n"


def test_a_job_whose_submission_was_under_way_when_the_run_was_killed_is_found(queue, executor):
    submit(queue, "touch begun; sleep 0.5; touch jobs/21; echo 21")
    run = submitted(executor)
    wait_for(queue.folder / "begun")
    os.killpg(run.pid, signal.SIGKILL)
    run.wait(20)
    assert not (queue.folder / "jobs/21").exists()
    assert orphans.stop("cluster-generic", SETTINGS) == ["21"]
    assert queue.cancelled() == ["21"]


def test_a_submission_that_does_not_end_stops_the_next_run(queue, executor, monkeypatch):
    monkeypatch.setattr(orphans, "PATIENCE_SECONDS", 0.05)
    submit(queue, "touch begun; sleep 0.3; echo 21")
    run = submitted(executor)
    wait_for(queue.folder / "begun")
    with pytest.raises(orphans.StillRunning, match="still submitting a job"):
        orphans.stop("cluster-generic", SETTINGS)
    run.communicate(timeout=20)
