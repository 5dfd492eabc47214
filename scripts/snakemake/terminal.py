"""Show the progress of a run on the terminal, instead of Snakemake's ten lines per job.

This uses a handler of Python's logging and the documented events of
snakemake-interface-logger-plugins. It replaces nothing in Snakemake, so it is no patch.

A logger plugin would be the right place but cannot be used. `--logger NAME` (or `logger:` in the
default profile) needs a package `snakemake_logger_plugin_NAME` that can be imported when the
command line is parsed. `python -m snakemake` finds it in the folder of the Snakefile, but the
command `snakemake` does not, and rejects the option. So the package would have to be installed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

from scripts.core import commands
from scripts.run.progress import Live


def refuse(message: str) -> NoReturn:
    """Print why nothing is run, and end the process. Snakemake would print an exception with the line of the rules that raised
    it, which is of no use to the one who has made the mistake."""
    logger.error(message)
    raise SystemExit(1)


def protect(logger: logging.Logger) -> None:
    """Make the handlers of Snakemake's `logger` write control characters in messages, such as those in a name of a model's file, as
    commands.shown does. Colours are added later."""
    for handler in logger.handlers:
        handler.addFilter(_harmless)


def _harmless(record: logging.LogRecord) -> bool:
    if isinstance(record.msg, str):
        record.msg, record.args = commands.shown(record.getMessage()), None
    return True


class Jobs(logging.Handler):
    """Passes the events of jobs from Snakemake's `logger` to `shown`.

    It listens from the start, because Snakemake reports the number of jobs before the run begins.
    It passes on the events of jobs after `follow` is called. Its errors do not affect the run. If a
    logger plugin has replaced the terminal's handler, it does nothing.
    """

    def __init__(self, logger: logging.Logger, shown: Live) -> None:
        super().__init__()
        self._shown = shown
        self._follows = False
        self._finished: list[int] = []
        self._after: dict[str, Callable[[], object]] = {}
        self._called_after: dict[int, Callable[[], object]] = {}
        self._terminals = [
            handler
            for handler in logger.handlers
            if isinstance(handler, logging.StreamHandler)
            and not isinstance(handler, logging.FileHandler)
        ]
        if self._terminals:
            logger.addHandler(self)

    def follow(self) -> None:
        """Show only warnings, errors and `shown` on the terminal from now on.

        Snakemake's log file and the user's logger plugins still receive everything. If `--quiet`
        leaves out progress, no events of jobs are shown.
        """
        progress = logging.makeLogRecord({"event": LogEvent.PROGRESS, "levelno": logging.INFO})
        self._follows = any(terminal.filter(progress) for terminal in self._terminals)
        for terminal in self._terminals:
            terminal.setLevel(logging.WARNING)
            terminal.addFilter(self._make_room)

    def after(self, rule: str, call: Callable[[], object]) -> None:
        """Call a function after each job of a rule has finished and is shown."""
        self._after[rule] = call

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._tell(vars(record))
        except Exception:  # an exception here would end the run
            self.handleError(record)

    def _tell(self, values: Mapping[str, Any]) -> None:
        event = values.get("event")
        if event == LogEvent.RUN_INFO:
            self._shown.planned(values["stats"])
        elif not self._follows:
            return
        elif event == LogEvent.JOB_INFO:
            outputs = [str(output) for output in values["output"] or ()]
            self._shown.begun(values["jobid"], values["rule_name"], outputs)
            if call := self._after.get(values["rule_name"]):
                self._called_after[values["jobid"]] = call
        elif event == LogEvent.JOB_ERROR:
            self._shown.stopped(values["jobid"])
        elif event == LogEvent.JOB_FINISHED:
            self._finished.append(values["job_id"])
        elif event == LogEvent.PROGRESS:
            finished, self._finished = self._finished, []
            for job in finished:
                self._shown.finished(job, values["done"], values["total"])
                if call := self._called_after.pop(job, None):
                    call()

    def _make_room(self, _: logging.LogRecord) -> bool:
        """Clear the live line before the terminal's handler prints (a filter of that handler)."""
        try:
            self._shown.aside()
        except OSError:  # the terminal is gone; Snakemake's own handler says so
            return True
        return True
