"""orphans: jobs that a killed run has left in a queue are cancelled, and waited for."""

from types import SimpleNamespace

import pytest

from scripts.lib.snakemake_patches import orphans

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
    assert orphans.stop(executor, SETTINGS)
    assert queue.cancelled() == ["12", "13"]
    assert "cancelling 2 job(s) that an earlier run has left: 12, 13" in capsys.readouterr().err
    assert [path.name for path in queue.folder.glob("jobs/*")] == ["99"]


@pytest.mark.parametrize("noted", [(), ("11",)])
def test_where_nothing_is_left_nothing_is_cancelled(queue, noted):
    queue(*noted)
    assert not orphans.stop("slurm", None)
    assert not (queue.folder / "cancelled").exists()


def test_every_job_that_is_registered_as_submitted_is_noted_once(queue):
    queue("of an earlier run")
    registered = []
    persistence = SimpleNamespace(started=lambda *job: registered.append(job))
    orphans.note(persistence)
    persistence.started("a", "11")
    persistence.started("b", "11")
    persistence.started("c", external_jobid="12")
    persistence.started("local")
    assert (queue.folder / orphans.NOTES).read_text() == "11\n12\n"
    assert registered == [("a", "11"), ("b", "11"), ("c", "12"), ("local", None)]


def test_a_job_that_was_not_noted_any_more_is_found_by_its_runs_name(queue):
    orphans.note(SimpleNamespace(started=None), name="of-this-run")
    for number, name in (("11", "of-this-run"), ("12", "of-another")):
        (queue.folder / "jobs" / number).write_text(name)
    assert orphans.stop("slurm", None)
    assert queue.cancelled() == ["11"]


def test_a_run_that_submits_nothing_is_refused_while_jobs_may_be_left(queue):
    orphans.refuse()
    queue("11")
    with pytest.raises(orphans.StillRunning, match="give its line again"):
        orphans.refuse()
    orphans.forget()
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
        orphans.StillRunning, match=r"\(11\).*see that they have ended, then remove"
    ):
        orphans.stop("kubernetes", SimpleNamespace())
    (queue.folder / orphans.NOTES).unlink()
    orphans.stop("kubernetes", SimpleNamespace())
