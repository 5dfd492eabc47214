"""A line per finished job on the terminal, in place of Snakemake's ten.

This takes a handler of Python's logging and the events of snakemake-interface-logger-plugins, which
are documented; nothing of Snakemake is replaced, so it is not in the registry of patches.

A logger plugin would be the proper place, and cannot be used. `--logger NAME` (or `logger:` in the
default profile, which would spare the user the option) takes a package `snakemake_logger_plugin_NAME`
that can be imported when the command line is parsed. `python -m snakemake` finds one beside the
Snakefile; the command `snakemake` does not, and refuses the option. So it would have to be installed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence

from snakemake_interface_logger_plugins.common import LogEvent

Line = Callable[[str, Sequence[str], int, int], str]
"""(rule, outputs, jobs done, jobs in all) to the line of a job that has finished."""


def follow(logger: logging.Logger, line: Line) -> None:
    """Have the terminal show warnings, errors and a line per job from now on.

    `logger` is Snakemake's. Its log file keeps everything, and so does a logger plugin of the
    user's; where one of these has taken the place of the terminal's handler, nothing is done.
    """
    for shown in list(logger.handlers):
        if isinstance(shown, logging.StreamHandler) and not isinstance(shown, logging.FileHandler):
            jobs = Jobs(line)
            for quiet in shown.filters:  # what `--quiet` leaves out
                jobs.addFilter(quiet)
            shown.setLevel(logging.WARNING)
            logger.addHandler(jobs)


class Jobs(logging.Handler):
    """Prints a line per job that finishes. Whatever goes wrong in it does not reach the run."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line
        self._jobs: dict[int, tuple[str, list[str]]] = {}
        self._finished: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            for line in self._lines(record):
                print(line, file=sys.stderr, flush=True)
        except Exception:  # of a line: an exception here would end the run
            self.handleError(record)

    def _lines(self, record: logging.LogRecord) -> list[str]:
        """What is to be printed of a record."""
        values = vars(record)
        event = values.get("event")
        if event == LogEvent.JOB_INFO:
            outputs = [str(output) for output in values["output"] or ()]
            self._jobs[values["jobid"]] = (values["rule_name"], outputs)
            if values["rule_name"] == "make_env":  # minutes, the first time
                return [f"making environment {values['wildcards']['env']} …"]
        elif event == LogEvent.JOB_FINISHED:
            self._finished.append(values["job_id"])
        elif event == LogEvent.PROGRESS:
            finished, self._finished = self._finished, []
            done, total = values["done"], values["total"]
            return [self._line(*self._jobs.get(job, ("", [])), done, total) for job in finished]
        return []
