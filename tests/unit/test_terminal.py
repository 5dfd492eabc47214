"""terminal: the events of Snakemake's logger are passed to the display."""

import io
import logging

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from scripts.run.snakemake.terminal import Jobs, protect


class Shown:
    """Records the calls of its methods."""

    def __init__(self) -> None:
        self.told: list[tuple] = []

    def __getattr__(self, name: str):
        return lambda *values: self.told.append((name, *values))


@pytest.fixture
def logger():
    """A logger as Snakemake makes it: a handler of the terminal, and a file that keeps everything."""
    made = logging.Logger("snakemake", logging.INFO)
    made.shown, made.kept = io.StringIO(), io.StringIO()
    made.addHandler(logging.StreamHandler(made.shown))
    file = logging.FileHandler("/dev/null")
    file.setStream(made.kept).close()
    made.addHandler(file)
    return made


def plan(logger) -> None:
    stats = {"compile_iree": 9, "total": 10}
    logger.info("stats", extra={"event": LogEvent.RUN_INFO, "stats": stats})


def finish(logger, rule: str = "compile_iree") -> None:
    """What Snakemake logs of a job."""
    job = {"jobid": 3, "rule_name": rule, "output": ["a", "b"], "wildcards": {"env": "iree"}}
    logger.info("rule", extra={"event": LogEvent.JOB_INFO} | job)
    logger.info("finished", extra={"event": LogEvent.JOB_FINISHED, "job_id": 3})
    logger.info(None, extra={"event": LogEvent.PROGRESS, "done": 2, "total": 10})


PLANNED = ("planned", {"compile_iree": 9, "total": 10})
RAN = [("begun", 3, "compile_iree", ["a", "b"]), ("finished", 3, 2, 10)]


def test_jobs_are_told_of_and_the_file_keeps_the_rest(logger):
    jobs = Jobs(logger, shown := Shown())
    plan(logger)
    jobs.follow()
    finish(logger)
    logger.warning("look")
    assert shown.told == [PLANNED, *RAN, ("aside",)]
    assert logger.shown.getvalue() == "stats\nlook\n"
    assert logger.kept.getvalue() == "stats\nrule\nfinished\nNone\nlook\n"


def test_what_follows_a_job_is_called_once_it_is_shown(logger):
    jobs = Jobs(logger, shown := Shown())
    jobs.after("compile_iree", lambda: shown.told.append("called"))
    jobs.follow()
    finish(logger, "verify_iree")
    assert "called" not in shown.told
    finish(logger)
    assert shown.told[-2:] == [("finished", 3, 2, 10), "called"]


def test_before_it_follows_only_the_plan_is_told_of_as_in_a_dry_run(logger):
    Jobs(logger, shown := Shown())
    plan(logger)
    finish(logger)
    assert shown.told == [PLANNED]
    assert logger.shown.getvalue() == "stats\nrule\nfinished\nNone\n"


def test_a_job_that_snakemake_calls_failed_is_told_of(logger):
    jobs = Jobs(logger, shown := Shown())
    jobs.follow()
    logger.error("Error in rule", extra={"event": LogEvent.JOB_ERROR, "jobid": 3})
    assert ("stopped", 3) in shown.told


@pytest.mark.parametrize(
    ("left_out", "told"), [(LogEvent.PROGRESS, []), (LogEvent.JOB_INFO, RAN)], ids=str
)
def test_where_quiet_leaves_out_progress_nothing_is_told_of_and_otherwise_all(
    logger, left_out, told
):
    logger.handlers[0].addFilter(lambda record: getattr(record, "event", None) != left_out)
    jobs = Jobs(logger, shown := Shown())
    jobs.follow()
    finish(logger)
    assert shown.told == told


def test_what_cannot_be_shown_does_not_reach_the_run(logger, capsys):
    shown = Shown()
    shown.begun = lambda *_: 1 / 0
    jobs = Jobs(logger, shown)
    jobs.follow()
    finish(logger)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_terminal_that_is_gone_does_not_reach_the_run(logger):
    def gone() -> None:
        raise BrokenPipeError

    shown = Shown()
    shown.aside = gone
    Jobs(logger, shown).follow()
    logger.warning("look")
    assert logger.kept.getvalue() == "look\n"


def test_a_logger_plugin_in_the_terminals_place_is_left_alone(capsys):
    logger = logging.Logger("snakemake")
    kept = []
    plugin = logging.Handler()
    plugin.emit = kept.append
    logger.addHandler(plugin)
    jobs = Jobs(logger, shown := Shown())
    jobs.follow()
    finish(logger)
    assert len(kept) == 3
    assert shown.told == []
    assert capsys.readouterr().err == ""


def test_control_characters_in_messages_are_shown_and_not_obeyed(logger):
    protect(logger)
    logger.warning("model.onnx: operator %s\nis not known", "a\x1b]0;owned\x07\r")
    assert logger.shown.getvalue() == "model.onnx: operator a\\x1b]0;owned\\x07\\r\nis not known\n"
    assert logger.kept.getvalue() == logger.shown.getvalue()
