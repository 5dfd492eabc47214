"""The host of a batch: it starts workers that handle the tasks, and records the tasks' outcomes.

Each task has its own time limit. If a worker crashes, hangs or takes too much memory, this is the outcome of the task
that it was handling, and a new worker continues with the next task. If that task was not the first one of its worker, a
new worker first handles it again, because earlier tasks may have caused the failure, for example by using memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.features.operators.batch.batch_worker import MARK
from scripts.supervise import journal, outcome, supervise
from scripts.supervise.diagnose import Diagnosis, diagnose
from scripts.supervise.job import CannotStart, Job
from scripts.supervise.outcome import ProblemEnd, problem_of_cell
from scripts.supervise.watch import LINE_BYTES, CappedLog, Ended, Watch

FRUITLESS = 2
"""No worker is started after this many successive workers have ended before they began a task."""


class Host:
    """Handles the tasks of a batch. A task is known by its id: a digest of its cell and payload, so that a changed task
    has another id. The journal keeps the ends of tasks that are not among the given ones."""

    def __init__(
        self,
        job: Job,
        work: Path,
        done: Callable[[ProblemEnd], None],
        again: Callable[[ProblemEnd], bool] = lambda _: False,
    ) -> None:
        """`job`: the job of a worker: its request (to which the fields of batch_worker.TasksRequest are added), its limits
        (`timeout_s` is the limit of each task) and the common values of the outcomes. `work`: the folder of the
        journal. `done` is called with the end of each task, in the order in which they end. A task that is in the
        journal, and whose outcome is final, is not handled again unless `again` is true of it.
        """
        assert job.request is not None
        self._job, self._request, self._work = job, job.request, work
        self._done, self._again = done, again
        self._names: dict[str, str] = {}
        self._payloads: dict[str, Mapping[str, Any]] = {}
        self._journal = _Journal(work / "journal.jsonl")
        self._owner = os.getppid() if job.owner is None else job.owner
        self._log = work / "worker.txt"

    def run(self, tasks: Mapping[str, Mapping[str, Any]]) -> list[Ended]:
        """Run workers until all tasks have ended. Return the outcome of each worker.

        `tasks`: their payloads, JSON, by the name of the problem. Raises job.Interrupted if the run is stopped or its
        parent has died, and OSError if `work` cannot be written. The tasks that have ended are in the journal.
        """
        for name, payload in tasks.items():
            text = json.dumps(
                [problem_of_cell(self._job, name), payload], sort_keys=True, allow_nan=False
            )
            task = hashlib.sha256(text.encode()).hexdigest()[:16]
            self._names[task], self._payloads[task] = name, payload
        left = self._not_kept()
        workers: list[Ended] = []
        ended, fruitless = Ended(0, 0.0, 0.0), 0
        while left and fruitless < FRUITLESS:
            ended = self._worker(left)
            workers.append(ended)
            ends, begun = self._journal.read()
            for end in ends:
                left.remove(end.end)
                self._done(self._line(end))
            fruitless = 0 if begun else fruitless + 1
            if begun and begun[-1] in left:  # it has not ended
                left.remove(begun[-1])
                if len(begun) == 1:
                    self._fail(begun[-1], ended)
                else:
                    left.insert(0, begun[-1])
        for task in left:
            self._fail(task, ended)
        return workers

    def _not_kept(self) -> list[str]:
        """Return the tasks to handle, and report the others from the journal."""
        self._work.mkdir(parents=True, exist_ok=True)
        ends = {end.end: end for end in self._journal.read()[0]}
        kept = {}
        for task in ends.keys() & self._names.keys():
            line = self._line(ends[task])
            if outcome.still_stands(line.outcome, self._job) and not self._again(line):
                kept[task] = line
        stays = [end for task, end in ends.items() if task in kept or task not in self._names]
        self._journal.begin(self._job.fingerprint, stays)
        for task in self._names:
            self._asked([task], Path("/dev/stdout")).write(self._folder_of(task))
            if task not in kept:
                self._log_of(task).unlink(missing_ok=True)
        for task in filter(kept.get, ends):
            self._done(kept[task])
        return [task for task in self._names if task not in kept]

    def _worker(self, tasks: Sequence[str]) -> Ended:
        folder = self._work / "worker"
        request = self._asked(tasks, self._journal.path)
        request.write(folder)
        command = [*request.command(folder), "--out", str(self._work)]
        job = dataclasses.replace(self._job, command=command, request=None, artifacts=())
        with contextlib.closing(_TaskLogs(self._work / "logs", self._log)) as logs:
            watch = Watch(job, self._owner, self._work, logs)
            try:
                with watch.stop_requests():
                    return watch.run()
            except CannotStart as error:
                logs.note(f"error: {error}")
                return Ended(127, 0.0, 0.0)

    def _fail(self, task: str, ended: Ended) -> None:
        job = self._job_of(task)
        said = supervise.verdict(job, ended, self._work)
        said = said or Diagnosis("error", "no-outcome", "the worker exited 0 before the task ended")
        limit = supervise.record(job, said).limit
        end = _End(task, self._job.fingerprint, verdict=said, limit=limit)
        self._journal.add(end)
        self._done(self._line(end))

    def _line(self, end: _End) -> ProblemEnd:
        """Return the outcome and the result of a task."""
        job, said = self._job_of(end.end), end.verdict
        if said is None and end.code:
            # A task that printed nothing has no log.
            is_log = job.log_path.is_file()
            log = job.log_path.read_text(encoding="utf-8", errors="replace") if is_log else ""
            said = diagnose(end.code, log)
        ended = dataclasses.replace(supervise.record(job, said), fingerprint=end.under)
        if end.verdict:
            ended = dataclasses.replace(ended, limit=end.limit)
        return ProblemEnd(self._names[end.end], ended, end.seconds, end.result)

    def _job_of(self, task: str) -> Job:
        """Return the job of a single task; its request repeats the task. The log of a task that was
        never begun is the log of the worker."""
        own = self._log_of(task)
        return dataclasses.replace(
            self._job,
            cell=problem_of_cell(self._job, self._names[task]),
            command=self._request.command(self._folder_of(task)),
            log_path=own if own.is_file() else self._log,
            artifacts=(),
        )

    def _asked(self, tasks: Sequence[str], to: Path) -> StageRequest:
        """The request for some tasks, whose ends are written to a file."""
        listed = [{"id": task, "payload": self._payloads[task]} for task in tasks]
        return self._request.replaced(tasks=listed, journal=to)

    def _folder_of(self, task: str) -> Path:
        return self._work / "tasks" / task

    def _log_of(self, task: str) -> Path:
        return self._work / "logs" / f"{task}.txt"


@dataclass(frozen=True)
class _End:
    """The end of a task, a line of the journal. `end`: the id of the task.

    `under`: fingerprint of its code. A task that ended by itself has an exit code, seconds and a result; otherwise
    `verdict` is the diagnosis of its worker's end. `limit`: the limit that it exceeded, in seconds or MiB.
    """

    end: str
    under: str
    code: int = 0
    seconds: float | None = None
    result: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    verdict: Diagnosis | None = None
    limit: float | None = None


class _Journal:
    """The journal of a batch: a line of JSON about the end of each task, written when it ends.

    {"under": "<fingerprint>"}                      the code of all tasks that end after this line
    {"begin": "<task>"}                             by the worker, as the next one
    {"end": "<task>", "code": 0, "seconds": 0.1, "result": {…}}
    {"end": "<task>", "verdict": {"status":…, "reason":…, "detail":…}, "limit": 60}    by the host
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._under = ""

    def begin(self, under: str, kept: Iterable[_End]) -> None:
        """Keep only the given ends. Later ends are recorded with the fingerprint `under`."""
        lines = [*map(dataclasses.asdict, kept), {"under": under}]
        atomic.write_text(self.path, "".join(json.dumps(line) + "\n" for line in lines))
        self._read = 0
        self.read()

    def add(self, end: _End) -> None:
        """Add the end of a task whose worker could not record it; `read` does not return it."""
        journal.append(self.path, dataclasses.asdict(end))
        self.read()

    def read(self) -> tuple[list[_End], list[str]]:
        """Return the ends since the last read, and the tasks that began. An incomplete line of a killed process is
        ignored. A line feed is added to it, so that the next entry begins on a new line."""
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
                    ends.append(msgspec.convert({"under": self._under} | entry, _End))
                elif "begin" in entry:
                    begun.append(entry["begin"])
                else:
                    self._under = entry["under"]
            except (KeyError, TypeError, ValueError):
                continue
        return ends, begun


class _TaskLogs:
    """One capped log per task (see watch.CappedLog), separated by the marks that a worker prints.
    The log `own` gets the output between tasks. If a task begins again, its log begins again."""

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
        mark = MARK.lstrip(b"\n")
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(mark):
                if self._log is not self._own:
                    self._log.close()
                task = line.removeprefix(mark).decode()
                self._log = CappedLog(self._folder / f"{task}.txt") if task else self._own
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
