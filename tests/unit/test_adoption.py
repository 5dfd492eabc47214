"""adoption: what ended unwatched is taken over only where it is what would be run now."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.lib import adoption, outcome
from scripts.lib.outcome import Outcome, Usage

COMMAND = "python -m scripts.compile_iree --flags '[\"--a b\"]' --out x.vmfb"
SUPERVISED = f"exec python -m scripts.supervise --cell 'm/f/t' -- {COMMAND}"


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """A job that ended, and its status; `packages` of its environment are older."""
    monkeypatch.chdir(tmp_path)
    packages = Path("versions.json")
    packages.write_text("{}")
    os.utime(packages, (1, 1))
    status = Path("results/compile/m/f/t/status.json")
    outcome.write(status, Outcome("error", "compile", "m/f/t", command=COMMAND), Usage(0, 0))
    return SimpleNamespace(
        output=["results/compile/m/f/t/module.vmfb", str(status)],
        input={"packages": [str(packages)]},
        shellcmd=SUPERVISED,
        is_local=False,
    )


def adopt(job, needrun=False, has_metadata=False):
    """(whether something is to be made again, jobs that were recorded)."""
    recorded = []

    async def finished(job):
        recorded.append(job)

    persistence = SimpleNamespace(finished=finished, has_metadata=lambda _: has_metadata)
    dag = SimpleNamespace(jobs=[job], needrun=lambda _: needrun)
    return adoption.adopt(dag, persistence, asyncio.run), recorded


def test_what_would_be_run_now_is_recorded(ended):
    assert adopt(ended) == (False, [ended])
    assert Path(ended.output[1]).exists()


def another_command(job):
    job.shellcmd = SUPERVISED.replace("--a b", "--a c")


def newer_environment(job):
    Path("versions.json").touch()
    os.utime(job.output[1], (2, 2))


def torn_status(job):
    Path(job.output[1]).write_text('{"status"')


@pytest.mark.parametrize("change", [another_command, newer_environment, torn_status])
def test_what_was_made_otherwise_is_made_again(ended, change):
    change(ended)
    assert adopt(ended) == (True, [])
    assert not Path(ended.output[1]).exists()


@pytest.mark.parametrize("state", [{"needrun": True}, {"has_metadata": True}])
def test_what_is_to_be_run_or_on_record_is_left_alone(ended, state):
    another_command(ended)
    assert adopt(ended, **state) == (False, [])
    assert Path(ended.output[1]).exists()


def test_local_jobs_are_left_alone(ended):
    ended.is_local = True
    another_command(ended)
    assert adopt(ended) == (False, [])
