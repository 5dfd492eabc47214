"""Split the output of a worker into the logs of its tasks."""

from __future__ import annotations

from pathlib import Path

from scripts.features.operators.batch.worker import MARK
from scripts.supervise.caplog import LINE_BYTES, CappedLog

_MARK = MARK.lstrip(b"\n")


class TaskLogs:
    """One capped log per task (see caplog.CappedLog), separated by the marks that a worker prints.

    The log `own` gets the output between tasks. If a task begins again, its log begins again.
    """

    def __init__(self, folder: Path, own: Path) -> None:
        self._folder = folder
        self._own = CappedLog(own)
        self._log = self._own
        self._rest = b""

    @property
    def last_line(self) -> str:
        return self._log.last_line

    def note(self, text: str) -> None:
        self._own.note(text)

    def insert(self, text: str) -> None:
        self._log.insert(text)

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_MARK):
                self._turn_to(line.removeprefix(_MARK).decode())
            else:
                self._log.feed(line + b"\n")
        # A line that is too long to be a mark is written before it is complete.
        if len(self._rest) > LINE_BYTES:
            self._log.feed(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Write the rest and close the logs."""
        self._log.feed(self._rest)
        self._rest = b""
        self._log.close()
        self._own.close()

    def _turn_to(self, task: str) -> None:
        if self._log is not self._own:
            self._log.close()
        self._log = CappedLog(self._folder / f"{task}.txt") if task else self._own
