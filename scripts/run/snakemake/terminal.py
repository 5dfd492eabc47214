"""Follow the jobs of a run by Snakemake's events, and show its progress on the terminal instead of ten lines per job.

This uses a handler of Python's logging and the documented events of snakemake-interface-logger-plugins, so it is no patch.
A logger plugin cannot be used: `--logger NAME` needs a package `snakemake_logger_plugin_NAME` that can be imported when the
command line is parsed, and the command `snakemake` does not look in the folder of the Snakefile.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
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
    """Passes the events of jobs from Snakemake's `logger` to `shown`, and calls functions after jobs.

    It listens from the start, because Snakemake reports the number of jobs before the run begins, and passes on the
    events of jobs after `follow` is called. Its errors do not affect the run. If a logger plugin has replaced the
    terminal's handler, nothing is shown.
    """

    def __init__(self, logger: logging.Logger, shown: Live) -> None:
        super().__init__()
        self._shown, self._follows = shown, False
        self._jobs: dict[int, tuple[str, list[str]]] = {}
        self._finished: list[int] = []
        self._after: dict[str, Callable[[], object]] = {}
        self._after_each: Callable[[Sequence[str]], object] = lambda outputs: None
        self._terminals = [
            handler
            for handler in logger.handlers
            if isinstance(handler, logging.StreamHandler)
            and not isinstance(handler, logging.FileHandler)
        ]
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

    def after_each(self, call: Callable[[Sequence[str]], object]) -> None:
        """Call a function with the outputs of each job that has finished, shown or not."""
        self._after_each = call

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._tell(vars(record))
        except Exception:  # an exception here would end the run
            self.handleError(record)

    def _tell(self, values: Mapping[str, Any]) -> None:
        match values.get("event"):
            case LogEvent.RUN_INFO if self._terminals:
                self._shown.planned(values["stats"])
            case LogEvent.JOB_INFO:
                rule, outputs = values["rule_name"], [str(file) for file in values["output"] or ()]
                self._jobs[values["jobid"]] = rule, outputs
                if self._follows:
                    self._shown.begun(values["jobid"], rule, outputs)
            case LogEvent.JOB_ERROR if self._follows:
                self._shown.stopped(values["jobid"])
            case LogEvent.JOB_FINISHED:
                self._finished.append(values["job_id"])
                self._after_each(self._jobs.get(values["job_id"], ("", []))[1])
            case LogEvent.PROGRESS:
                finished, self._finished = self._finished, []
                for job in finished if self._follows else ():
                    self._shown.finished(job, values["done"], values["total"])
                    if call := self._after.get(self._jobs.get(job, ("", []))[0]):
                        call()

    def _make_room(self, _: logging.LogRecord) -> bool:
        """Clear the live line before the terminal's handler prints (a filter of that handler)."""
        with contextlib.suppress(OSError):  # the terminal is gone; Snakemake's own handler says so
            self._shown.aside()
        return True
