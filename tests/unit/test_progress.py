"""progress: a line a finished job, as a person follows a run."""

import logging

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from scripts.lib.driver import progress
from scripts.lib.supervision import outcome
from scripts.lib.supervision.outcome import Outcome, Usage


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """What is printed of a job that ended so, without the counter and the seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "_width", lambda: 200)

    def event(**values) -> logging.LogRecord:
        record = logging.LogRecord("snakemake", logging.INFO, "", 0, "", (), None)
        record.__dict__.update(values)
        return record

    def finish(ended: Outcome) -> str:
        outcome.write("status.json", ended, Usage(1.5, 1.0))
        log = progress.RunLog()
        output = ["artifact", "status.json"]
        log.filter(event(event=LogEvent.JOB_INFO, jobid=3, rule_name=ended.stage, output=output))
        log.filter(event(event=LogEvent.JOB_FINISHED, job_id=3))
        log.filter(event(event=LogEvent.PROGRESS, done=2, total=10))
        [line] = capsys.readouterr().err.splitlines()
        return " ".join(line.split()).removeprefix("[ 2/10] ")

    return finish


@pytest.mark.parametrize(
    ("ended", "line"),
    [
        (Outcome("ok", "compile", "c"), "compile c ok 1.5 s"),
        (Outcome("error", "compile", "c", "why", "what"), "compile c error 1.5 s why: what"),
        (
            Outcome("skipped", "measure", "c", "why", "what", "export d"),
            "measure c skipped 1.5 s blocked by export d",
        ),
        pytest.param(
            Outcome("skipped", "measure", "c", "skip-list", "skip.all of x.yaml"),
            "measure c skipped 1.5 s skip-list: skip.all of x.yaml",
        ),
    ],
)
def test_a_finished_job_is_a_line_that_says_how_it_ended_and_why(said, ended, line):
    assert said(ended) == line
