"""The journal of a batch: a line of JSON about the end of each task, written when it ends.

{"under": "<fingerprint>"}                          the code of all tasks that end after this line
{"begin": "<task>"}
{"end": "<task>", "code": 0, "seconds": 0.1, "result": {…}}              by the worker
{"end": "<task>", "verdict": {"status":…, "reason":…, "detail":…}, "limit": 60}    by its host
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.supervise import journal
from scripts.supervise.diagnose import Diagnosis


@dataclass(frozen=True)
class TaskEnd:
    """The end of a task.

    `under`: fingerprint of its code. A task that ended by itself has an exit code, seconds and a
    result; otherwise `verdict` is the diagnosis of its worker's end. `limit`: the limit that it
    exceeded, in seconds or MiB.
    """

    task: str
    under: str
    code: int = 0
    seconds: float | None = None
    result: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    verdict: Diagnosis | None = None
    limit: float | None = None

    def line(self) -> dict[str, Any]:
        """Return it as a line of the journal."""
        values = dataclasses.asdict(self)
        return {"end": values.pop("task")} | values


@dataclass(frozen=True)
class Turn:
    """The work of one worker.

    `ended`: the tasks that ended. `first`: the first task that it began. `unfinished`: the task
    that it had begun and not ended. Both are "" if there is none.
    """

    ended: tuple[TaskEnd, ...]
    first: str
    unfinished: str


class Record:
    """The journal at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._under = ""

    def ends(self) -> dict[str, TaskEnd]:
        """Return the last end of each task."""
        self._read, self._under = 0, ""
        return {end.task: end for end in self._events()[0]}

    def begin(self, under: str, kept: Iterable[TaskEnd]) -> None:
        """Keep only the given ends. Later ends are recorded with the fingerprint `under`."""
        lines = [*(end.line() for end in kept), {"under": under}]
        atomic.write_text(self.path, "".join(json.dumps(line) + "\n" for line in lines))
        self._read, self._under = 0, ""
        self._events()

    def add(self, end: TaskEnd) -> None:
        """Add the end of a task whose worker could not record it."""
        journal.append(self.path, end.line())

    def turn(self) -> Turn:
        """Return the work that was recorded since the last read."""
        ends, begun = self._events()
        over = {end.task for end in ends}
        unfinished = begun[-1] if begun and begun[-1] not in over else ""
        return Turn(tuple(ends), begun[0] if begun else "", unfinished)

    def _events(self) -> tuple[list[TaskEnd], list[str]]:
        """Return new ends, and the tasks that began.

        An incomplete line of a killed process is ignored. A line feed is added to it, so that the
        next entry begins on a new line.
        """
        ends, begun = [], []
        data = self.path.read_bytes()[self._read :] if self.path.exists() else b""
        if data and not data.endswith(b"\n"):
            with self.path.open("ab") as out:
                data += b"\n"
                out.write(b"\n")
        self._read += len(data)
        for line in data.splitlines():
            try:
                entry = json.loads(line)
                if "end" in entry:
                    ends.append(self._end(entry))
                elif "begin" in entry:
                    begun.append(entry["begin"])
                else:
                    self._under = entry["under"]
            except (AttributeError, KeyError, TypeError, ValueError):
                continue
        return ends, begun

    def _end(self, entry: dict[str, Any]) -> TaskEnd:
        said = entry.pop("verdict", None)
        values = {"under": self._under} | entry
        return TaskEnd(
            task=values.pop("end"), verdict=Diagnosis(**said) if said else None, **values
        )
