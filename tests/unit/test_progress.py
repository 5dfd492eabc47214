"""progress: the line of a finished job."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.run import progress
from scripts.run.progress import Finished
from scripts.supervise import journal, outcome
from scripts.supervise.outcome import Outcome, Usage


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "_width", lambda: 200)


def said() -> str:
    """The line of a job, without the counter."""
    line = progress.finished("a_rule", ["artifact", "status.json"], 2, 10).line
    return " ".join(line.split()).removeprefix("[ 2/10] ")


@pytest.mark.parametrize(
    ("ended", "line"),
    [
        (Outcome("ok", "compile", "c"), "compile c ok 1.5 s"),
        (Outcome("error", "compile", "c", "why", "what"), "compile c error 1.5 s why: what"),
        (
            Outcome("skipped", "measure", "c", "why", "what", "export d"),
            "measure c skipped 1.5 s blocked by export d",
        ),
        (
            Outcome("skipped", "measure", "c", "skip-list", "skip.all of x.yaml"),
            "measure c skipped 1.5 s skip-list: skip.all of x.yaml",
        ),
    ],
)
def test_a_finished_job_is_a_line_that_says_how_it_ended_and_why(ended, line):
    outcome.write("status.json", ended, Usage(1.5, 1.0))
    assert said() == line


@pytest.mark.parametrize("status", outcome.STATUSES)
def test_what_failed_by_its_own_fault_has_a_line_of_its_own(status):
    outcome.write("status.json", Outcome(status, "compile", "c", "why", "what"), Usage(1.5, 1.0))
    failure = f"compile c: {status} (why): what" if status in outcome.FAILED else ""
    assert progress.finished("a_rule", ["status.json"], 2, 10).failure == failure


def test_a_rule_without_a_status_is_named():
    found = progress.finished("aggregate_results", ["x.csv"], 10, 10)
    assert found == Finished("[10/10] aggregate_results")


@pytest.mark.parametrize(
    ("usage", "why"),
    [
        (None, "usage.json is missing"),
        ('{"sec', "usage.json: not valid JSON"),
        ('{"seconds": 1}', "usage.json: not a usage file"),
    ],
)
def test_a_broken_usage_leaves_the_line_with_what_is_known(usage, why):
    outcome.write("status.json", Outcome("ok", "compile", "c"), Usage(1.5, 1.0))
    Path("usage.json").unlink()
    if usage is not None:
        Path("usage.json").write_text(usage)
    assert said().startswith(f"compile c ok ? s {why}")


def test_a_broken_status_leaves_the_rule_and_says_which_file_it_is():
    assert said() == "a_rule [Errno 2] No such file or directory: 'status.json'"
    for broken in ({"status": "fine"}, {"stage": None}, {"cell": 3}, {"limit": "1"}, {"x": 1}):
        fields = {"status": "ok", "stage": "compile", "cell": "c"} | broken
        Path("status.json").write_text(json.dumps(fields))
        assert said().startswith("a_rule status.json: not a status file")


FIELDS = [field for kind in (Outcome, Usage) for field in kind.__dataclass_fields__]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner),
    max_leaves=12,
)
BROKEN = st.binary(max_size=40) | st.builds(lambda value: json.dumps(value).encode(), VALUES)
STATUS = st.just(json.dumps({"status": "ok", "stage": "s", "cell": "c"}).encode()) | st.builds(
    lambda **fields: json.dumps(fields).encode(), status=VALUES, stage=VALUES, cell=VALUES
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STATUS | BROKEN, BROKEN | st.just(b"[" * 100_000))
def test_whatever_the_files_hold_there_is_one_line(status, usage):
    Path("status.json").write_bytes(status)
    Path("usage.json").write_bytes(usage)
    found = progress.finished("a_rule", ["status.json"], 2, 10)
    assert found.line.startswith("[ 2/10] ")
    assert len(found.line.splitlines()) == 1
    assert len(found.failure.splitlines()) <= 1


def test_a_run_is_as_long_as_it_was_though_the_clock_was_set(monkeypatch):
    class Matrix:
        def to_json(self):
            return {}

    log = progress.RunLog()
    monkeypatch.setattr(progress.time, "time", lambda: 9000.0)
    log.start(Matrix())
    monkeypatch.setattr(progress.time, "time", lambda: 5.0)
    account = journal.of_last_run(progress.JOURNAL, log.now())
    assert 0 <= account.wall < 10
