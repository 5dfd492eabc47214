"""terminal: the events of Snakemake's logger become a line per finished job."""

import io
import logging

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from scripts.lib.snakemake_patches import terminal


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


def finish(logger, rule: str = "compile_iree") -> None:
    """What Snakemake logs of a job."""
    job = {"jobid": 3, "rule_name": rule, "output": ["a", "b"], "wildcards": {"env": "iree"}}
    logger.info("rule", extra={"event": LogEvent.JOB_INFO} | job)
    logger.info("finished", extra={"event": LogEvent.JOB_FINISHED, "job_id": 3})
    logger.info(None, extra={"event": LogEvent.PROGRESS, "done": 2, "total": 10})


def line(rule, outputs, done, total) -> str:
    return f"{rule} {outputs} {done} {total}"


def test_a_finished_job_is_its_line_and_the_file_keeps_the_rest(logger, capsys):
    terminal.follow(logger, line)
    finish(logger)
    logger.warning("look")
    assert capsys.readouterr().err == "compile_iree ['a', 'b'] 2 10\n"
    assert logger.shown.getvalue() == "look\n"
    assert logger.kept.getvalue() == "rule\nfinished\nNone\nlook\n"


def test_an_environment_is_announced(logger, capsys):
    terminal.follow(logger, line)
    finish(logger, "make_env")
    assert capsys.readouterr().err.startswith("making environment iree …\n")


def test_what_the_terminal_leaves_out_is_left_out(logger, capsys):
    logger.handlers[0].addFilter(lambda record: record.event != LogEvent.PROGRESS)
    terminal.follow(logger, line)
    finish(logger)
    assert capsys.readouterr().err == ""


def test_a_line_that_cannot_be_made_does_not_reach_the_run(logger, capsys):
    terminal.follow(logger, lambda *_: 1 / 0)
    finish(logger)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_event_without_its_fields_does_not_reach_the_run(logger, capsys):
    terminal.follow(logger, line)
    logger.info("x", extra={"event": LogEvent.JOB_INFO})
    assert "KeyError" in capsys.readouterr().err


def test_a_logger_plugin_in_the_terminals_place_is_left_alone(capsys):
    logger = logging.Logger("snakemake")
    shown = []
    plugin = logging.Handler()
    plugin.emit = shown.append
    logger.addHandler(plugin)
    terminal.follow(logger, line)
    finish(logger)
    assert len(shown) == 3
    assert capsys.readouterr().err == ""
