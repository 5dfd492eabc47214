"""adoption: outcomes of unwatched jobs are kept only if the run would produce the same ones."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.snakemake import adoption
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage

COMMAND = "python -m scripts.stages.compile_iree --flags '[\"--a b\"]' --out x.vmfb"
SUPERVISED = f"exec python -m scripts.stages.supervise --cell 'm/f/t' -- {COMMAND}"


REASONS = (
    *("params_changed", "updated_input", "updated_input_run", "input_changed", "missing_output"),
    *("incomplete_output", "forced", "code_changed", "software_stack_changed"),
)


class Job(SimpleNamespace):
    __hash__ = object.__hash__


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """A job that ended, and its status; `packages` of its environment are older."""
    monkeypatch.chdir(tmp_path)
    packages = Path("versions.json")
    packages.write_text("{}")
    os.utime(packages, (1, 1))
    status = Path("results/compile/m/f/t/status.json")
    made = Outcome("error", "compile", "m/f/t", command=COMMAND, due="code+1")
    outcome.write(status, made, Usage(0, 0))
    return Job(
        output=["results/compile/m/f/t/module.vmfb", str(status)],
        input={"packages": [str(packages)]},
        shellcmd=SUPERVISED,
        params=SimpleNamespace(due="code+1"),
        is_local=False,
    )


def adopt(job, has_metadata=False, upstream_due=False, **reasons):
    """(whether what is to be done is to be found anew, jobs that were recorded); `reasons` are why
    the job is to be run."""
    recorded = []
    why = SimpleNamespace(**dict.fromkeys(REASONS, False) | reasons)
    upstream = object()

    async def finished(job):
        recorded.append(job)

    persistence = SimpleNamespace(finished=finished, has_metadata=lambda _: has_metadata)
    dag = SimpleNamespace(
        jobs=[job],
        needrun=lambda asked: bool(reasons) if asked is job else upstream_due,
        reason=lambda _: why,
        dependencies={job: [upstream]},
    )
    return bool(adoption.adopt(dag, persistence, asyncio.run)), recorded


def test_what_would_be_run_now_is_recorded(ended):
    assert adopt(ended) == (False, [ended])
    assert Path(ended.output[1]).exists()


def another_command(job):
    job.shellcmd = SUPERVISED.replace("--a b", "--a c")


def newer_environment(job):
    Path("versions.json").touch()
    os.utime(job.output[1], (2, 2))


def another_request(job):
    job.params.due = "code+2"


def torn_status(job):
    Path(job.output[1]).write_text('{"status"')


CHANGES = [another_command, another_request, newer_environment, torn_status]


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_made_otherwise_is_made_again(ended, change):
    change(ended)
    assert adopt(ended) == (True, [])
    assert not Path(ended.output[1]).exists()


def test_what_an_environment_made_that_is_to_be_made_again_is_made_again(ended):
    assert adopt(ended, upstream_due=True) == (True, [])
    assert not Path(ended.output[1]).exists()


def test_what_was_run_with_the_params_of_now_is_recorded_in_place_of_those_of_before(ended):
    assert adopt(ended, has_metadata=True, params_changed=True) == (True, [ended])


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_run_with_the_params_of_before_is_left_to_be_run(ended, change):
    change(ended)
    assert adopt(ended, has_metadata=True, params_changed=True) == (False, [])
    assert Path(ended.output[1]).exists()


@pytest.mark.parametrize("also", [*REASONS[1:], "upstream_due"])
def test_what_is_to_be_run_for_more_than_its_params_is_left_to_be_run(ended, also):
    assert adopt(ended, has_metadata=True, params_changed=True, **{also: True}) == (False, [])
    assert adopt(ended, params_changed=True, **{also: True}) == (False, [])


def test_what_is_on_record_is_left_alone(ended):
    another_command(ended)
    assert adopt(ended, has_metadata=True) == (False, [])
    assert Path(ended.output[1]).exists()


def test_local_jobs_are_left_alone(ended):
    ended.is_local = True
    another_command(ended)
    assert adopt(ended) == (False, [])
