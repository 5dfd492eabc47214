"""orphans: a run does not begin beside jobs that a killed run has left in a queue."""

from types import SimpleNamespace

import pytest

from scripts.run.snakemake import executors

SETTINGS = SimpleNamespace(status_cmd="./status", cancel_cmd="./cancel now")


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A queue in a folder: a file for each job that runs; `queue(…)` notes jobs as a run does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    scripts = {
        "status": 'if [ -f "jobs/$1" ]; then echo running; else echo success; fi',
        "squeue": 'for j in $(ls jobs); do echo "$j $j $(cat "jobs/$j")"; done',
    }
    for name, body in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "jobs").mkdir()
    executors.NOTES.parent.mkdir(parents=True)

    def left(*noted, running=()):
        executors.NOTES.write_text("".join(f"{job}\n" for job in noted))
        for job in running:
            (tmp_path / "jobs" / job).touch()

    left.folder = tmp_path
    return left


@pytest.mark.parametrize(
    ("executor", "settings", "cancel"),
    [
        ("slurm", SETTINGS, "scancel"),
        ("cluster-generic", SETTINGS, "./cancel now"),
        ("cluster-generic", SimpleNamespace(status_cmd="./status"), "the command that cancels jobs, for"),
    ],
)  # fmt: skip
def test_what_still_runs_is_named_with_what_cancels_it_and_nothing_else(
    queue, executor, settings, cancel
):
    queue("11", "12", "13", running=("12", "13", "99"))
    with pytest.raises(executors.StillRunning) as error:
        executors.refuse_beside(executor, settings)
    assert "an earlier run has left 2 job(s) that still run or wait" in str(error.value)
    assert str(error.value).endswith(f"\n  {cancel} 12 13")
    for job in ("12", "13"):
        (queue.folder / "jobs" / job).unlink()
    executors.refuse_beside(executor, settings)


def test_a_job_that_was_not_noted_any_more_is_found_by_its_runs_name(queue):
    queue("of-this-run")
    for number, name in (("11", "of-this-run"), ("12", "of-another")):
        (queue.folder / "jobs" / number).write_text(name)
    with pytest.raises(executors.StillRunning, match=r"scancel 11$"):
        executors.refuse_beside("slurm", None)


def test_a_command_that_fails_says_what_it_said(queue):
    queue("11")
    (queue.folder / "squeue").write_text("#!/bin/sh\necho no controller >&2; exit 1\n")
    with pytest.raises(executors.StillRunning, match="exit code 1: no controller"):
        executors.refuse_beside("slurm", None)


def test_a_command_that_does_not_exist_is_named(queue, monkeypatch):
    queue("11")
    monkeypatch.setenv("PATH", str(queue.folder / "jobs"))
    with pytest.raises(executors.StillRunning, match=r"^squeue .*: No such file or directory"):
        executors.refuse_beside("slurm", None)


def test_an_executor_that_cannot_tell_says_what_to_do(queue):
    queue("11")
    with pytest.raises(
        executors.StillRunning, match=r"\(11\).*make sure that they have ended, then remove"
    ):
        executors.refuse_beside("kubernetes", SimpleNamespace())
    executors.NOTES.unlink()
    executors.refuse_beside("kubernetes", SimpleNamespace())
