"""The host of a batch: it starts workers that handle the tasks, and records the tasks' outcomes.

Each task has its own time limit. If a worker crashes, hangs or takes too much memory, this is the
outcome of the task that it was handling, and a new worker continues with the next task. If that
task was not the first one of its worker, a new worker first handles it again, because earlier tasks
may have caused the failure, for example by using memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.features.operators.batch.logs import TaskLogs
from scripts.features.operators.batch.record import Record, TaskEnd, Turn
from scripts.supervise import outcome, verdict
from scripts.supervise.diagnose import Diagnosis, diagnose
from scripts.supervise.job import CannotStart, Job
from scripts.supervise.outcome import Outcome
from scripts.supervise.watch import Ended, Watch

FRUITLESS = 2
"""No worker is started after this many successive workers have ended before they began a task."""


@dataclass(frozen=True)
class Task:
    """A task of a batch. `name`: the cell of its outcome, unique in the batch. `payload`: JSON."""

    name: str
    payload: Mapping[str, Any]

    @functools.cached_property
    def id(self) -> str:
        """Its id in files: a digest of name and payload, so that a changed task has another id."""
        text = json.dumps([self.name, self.payload], sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Handled:
    """The result of a task.

    `seconds`: time of its handling; None if its worker ended before the task did. `result`: the
    facts that it returned. `kept`: whether it was handled in an earlier call.
    """

    outcome: Outcome
    seconds: float | None
    result: Mapping[str, Any]
    kept: bool


def run(
    job: Job,
    tasks: Sequence[Task],
    work: Path,
    done: Callable[[Handled], None],
    again: Callable[[Handled], bool] = lambda _: False,
) -> list[Ended]:
    """Handle the tasks, and call `done` with the outcome of each task, in the order in which they
    end. Return how each worker ended.

    `job`: the job of a worker: its command (to which the options of worker.add_arguments are
    added), its limits (`timeout_s` is the limit of each task) and the common values of the
    outcomes. `work`: the folder of the journal. A task that is in the journal unchanged is not
    handled again if it was ok, or failed under this fingerprint, unless `again` is true of it. The
    journal keeps the ends of tasks that are not among the given ones.

    Raises job.Interrupted if the run is stopped or its parent has died, OSError if `work` cannot be
    written, and ValueError if two tasks are the same. The tasks that have ended are in the journal.
    """
    return _Batch(job, tasks, work, done, again).run()


class _Batch:
    """One call of `run`."""

    def __init__(
        self,
        job: Job,
        tasks: Sequence[Task],
        work: Path,
        done: Callable[[Handled], None],
        again: Callable[[Handled], bool],
    ) -> None:
        self._tasks = {task.id: task for task in tasks}
        if len(self._tasks) != len(tasks):
            raise ValueError(f"{job.stage} {job.cell}: two tasks of the batch are the same")
        self._job, self._work, self._done, self._again = job, work, done, again
        self._record = Record(work / "journal.jsonl")
        self._owner = os.getppid() if job.owner is None else job.owner
        self._log = work / "worker.txt"

    def run(self) -> list[Ended]:
        """Run workers until all tasks have ended."""
        left = self._not_kept()
        workers: list[Ended] = []
        ended, fruitless = Ended(0, 0.0, 0.0), 0
        while left and fruitless < FRUITLESS:
            ended, turn = self._worker(left)
            workers.append(ended)
            for end in turn.ended:
                left.remove(end.task)
                self._done(self._handled(end))
            fruitless = 0 if turn.first else fruitless + 1
            if turn.unfinished:
                left.remove(turn.unfinished)
                if turn.unfinished == turn.first:
                    self._fail(turn.unfinished, ended)
                else:
                    left.insert(0, turn.unfinished)
        for task in left:
            self._fail(task, ended)
        return workers

    def _not_kept(self) -> list[str]:
        """Return the tasks to handle, and report the others from the journal."""
        self._work.mkdir(parents=True, exist_ok=True)
        ends = self._record.ends()
        handled = {task: self._handled(end, kept=True) for task, end in ends.items() if task in self._tasks}  # fmt: skip
        kept = [task for task, found in handled.items() if self._stands(ends[task], found.outcome) and not self._again(found)]  # fmt: skip
        stays = [end for task, end in ends.items() if task in kept or task not in self._tasks]
        self._record.begin(self._job.fingerprint, stays)
        for task in self._tasks:
            self._write_tasks([task], self._tasks_of(task))
            if task not in kept:
                self._log_of(task).unlink(missing_ok=True)
        for task in kept:
            self._done(handled[task])
        return [task for task in self._tasks if task not in kept]

    def _stands(self, end: TaskEnd, found: Outcome) -> bool:
        """Return whether the recorded end of a task is still valid."""
        if found.status == outcome.OK:
            return True
        limits = {"timeout": self._job.timeout_s, "oom": self._job.memory_mb}
        moved = end.limit not in (None, limits.get(found.status))
        return end.under == self._job.fingerprint and not moved and not found.is_passing

    def _worker(self, tasks: Sequence[str]) -> tuple[Ended, Turn]:
        """Run a worker on some tasks until it ends."""
        command = self._command(
            self._write_tasks(tasks, self._work / "tasks.json"), self._record.path
        )
        job = dataclasses.replace(self._job, command=command, artifacts=())
        with contextlib.closing(TaskLogs(self._work / "logs", self._log)) as logs:
            watch = Watch(job, self._owner, self._work, logs)
            try:
                with watch.stop_requests():
                    ended = watch.run()
            except CannotStart as error:
                logs.note(f"error: {error}")
                ended = Ended(127, 0.0, 0.0)
        return ended, self._record.turn()

    def _fail(self, task: str, ended: Ended) -> None:
        """Record the end of a worker as the outcome of a task."""
        job = self._job_of(task)
        said = verdict.of(job, ended, self._work)
        said = said or Diagnosis("error", "no-outcome", "the worker exited 0 before the task ended")
        limit = verdict.record(job, said).limit
        end = TaskEnd(task, self._job.fingerprint, verdict=said, limit=limit)
        self._record.add(end)
        self._record.turn()  # skip the line that was just added: no worker wrote it
        self._done(self._handled(end))

    def _handled(self, end: TaskEnd, kept: bool = False) -> Handled:
        """Return the result of a task from its line of the journal."""
        job = self._job_of(end.task)
        said = end.verdict
        if said is None and end.code:
            said = diagnose(end.code, _text(job.log_path))
        ended = dataclasses.replace(verdict.record(job, said), fingerprint=end.under)
        return Handled(ended, end.seconds, end.result, kept)

    def _job_of(self, task: str) -> Job:
        """Return the job of a single task; its command repeats the task.

        The log of a task that was never begun is the log of the worker.
        """
        own = self._log_of(task)
        command = self._command(self._tasks_of(task), Path("/dev/stdout"))
        return dataclasses.replace(
            self._job,
            cell=self._tasks[task].name,
            command=command,
            log_path=own if own.is_file() else self._log,
            artifacts=(),
        )

    def _command(self, tasks: Path, journal: Path) -> list[str]:
        return [*self._job.command, "--tasks", str(tasks), "--journal", str(journal)]

    def _write_tasks(self, tasks: Sequence[str], path: Path) -> Path:
        """Write a file of tasks for a worker and return its path."""
        listed = [{"id": task, "payload": self._tasks[task].payload} for task in tasks]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
        return path

    def _tasks_of(self, task: str) -> Path:
        """Return the path of the file with only this task."""
        return self._work / "tasks" / f"{task}.json"

    def _log_of(self, task: str) -> Path:
        return self._work / "logs" / f"{task}.txt"


def _text(log: Path) -> str:
    """Return a log, or "" if there is none because the task printed nothing."""
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
