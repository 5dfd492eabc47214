"""The work of a stage on a batch of problems: its tasks, the workers that handle them, and the file with their outcomes.

A problem is a task of the stage if all stages before it ended well for this problem. Otherwise it is skipped, with the
reason of the first failure. Unlike a model, each problem of a batch has its own outcome in every stage.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic
from scripts.core.commands import option
from scripts.core.requests import StageRequest
from scripts.run import fingerprint
from scripts.supervise import journal, outcome, supervise
from scripts.supervise.diagnose import Diagnosis, diagnose
from scripts.supervise.job import CannotStart, Job
from scripts.supervise.outcome import Damage, Outcome, ProblemEnd, problem_of_cell
from scripts.supervise.supervise import Ran
from scripts.supervise.watch import LINE_BYTES, CappedLog, Ended, Watch
from scripts.tools.operators.batch import batch_worker
from scripts.tools.operators.batch.batch_worker import MARK
from scripts.tools.operators.problems.problem import Problem, read_problems

PASSED_ON = ("files", "module", "function", "shortest")
"""Values of a result that later stages use, besides the folder of the problem. A task changes with
them, and with nothing else of the stages before it."""


@dataclass(frozen=True)
class Batch:
    """A batch in a stage. `problems`: all of them, in order. `before`: outcomes.jsonl of the stages
    before it, in order, by the names of the stages. `pins`: of the environment. `again`: whether a
    problem has to be handled again, although it has not changed."""

    problems: Sequence[Problem]
    before: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    pins: str = ""
    again: Callable[[Outcome], bool] = lambda _: True

    @classmethod
    def of_files(cls, problems: Path, before: Iterable[Path] = (), **more: Any) -> Batch:
        """Read the problems of a batch. `before`: results/<stage>/<cell>/outcomes.jsonl."""
        stages = {path.parts[path.parts.index("results") + 1]: path for path in before}
        return cls(read_problems(problems), stages, **more)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a command that runs a stage on a batch is given beside the options of job_arguments."""

    pins: str = option("", help="digest of the environment's pins")
    retry: str = option("", help="statuses of problems to handle again, separated by commas")

    def batch(self, job: Job) -> Batch:
        """Return the batch that a job works on: the fields `problems` and `before` of its request."""
        assert job.request is not None
        fields = job.request.fields
        retry = frozenset(filter(None, self.retry.split(",")))
        return Batch.of_files(
            Path(fields["problems"]),
            map(Path, fields.get("before", ())),
            pins=self.pins,
            again=lambda ended: fingerprint.is_wanted(ended, job.fingerprint, retry),
        )


def work(batch: Batch) -> supervise.Work:
    """Return the work of a job that handles a batch in workers (batch_worker.py), and writes the job's artifact. Its request is that
    of a worker, which writes the files of a problem into the folder of the job, in a folder with the name of the problem."""

    def run(job: Job, owner: int, scratch: Path, log: CappedLog) -> Ran:
        if damaged := outcome.first_damage([str(path) for path in batch.before.values()]):
            return Ran(Ended(), damage=damaged)
        known, skipped = _sorted_out(job, batch)
        if damaged := _damage(known, batch):
            return Ran(Ended(), damage=damaged)
        lines, workers = _in_workers(dataclasses.replace(job, owner=owner), known, batch)
        by_name = {line.problem: line for line in [*lines, *skipped]}
        write(job, scratch, log, [by_name[problem.name] for problem in batch.problems])
        ended = Ended(
            returncode=0,
            seconds=sum(worker.seconds for worker in workers),
            max_rss_mb=max((worker.max_rss_mb for worker in workers), default=0.0),
            startup_s=sum(worker.startup_s or 0.0 for worker in workers),
        )
        return Ran(ended, supervise.digests(job, scratch))

    return run


def write(job: Job, scratch: Path, log: CappedLog, lines: Sequence[ProblemEnd]) -> None:
    """Write the outcomes of a batch, the only artifact of its job, and their number by status."""
    (artifact,) = job.artifacts
    outcome.write_problem_ends(scratch / artifact.name, lines)
    counts = Counter(line.outcome.status for line in lines)
    shown = ", ".join(f"{count} {status}" for status, count in counts.items())
    log.note(f"# problems: {shown or 'none'}")


Known = Mapping[str, Mapping[str, Any]]
"""The results of earlier stages of the problems to handle, by name."""


def _in_workers(job: Job, known: Known, batch: Batch) -> tuple[list[ProblemEnd], list[Ended]]:
    """Handle the problems that have such results. Return a line for each, and the outcomes of the workers."""
    folder = job.status_path.parent
    assert job.request is not None
    fields = {key: v for key, v in job.request.fields.items() if key not in ("problems", "before")}
    under = [batch.pins, dataclasses.asdict(dataclasses.replace(job.request, fields=fields))]
    tasks = {
        p.name: {"op": p.op, "args": p.args, "before": known[p.name], "under": under}
        for p in batch.problems
        if p.name in known
    }
    lines: list[ProblemEnd] = []

    def again(line: ProblemEnd) -> bool:
        files = line.result.get("files") if line.outcome.status == outcome.OK else None
        return batch.again(line.outcome) or bool(
            batch_worker.files_difference(folder / line.problem, files)
        )

    return lines, Host(job, folder, lines.append, again).run(tasks)


def _sorted_out(job: Job, batch: Batch) -> tuple[dict[str, dict[str, Any]], list[ProblemEnd]]:
    """Return what the problems to handle know of the stages before, by name; and skipped problems."""
    read = {stage: outcome.read_problem_ends(path) for stage, path in batch.before.items()}
    known: dict[str, dict[str, Any]] = {}
    skipped: list[ProblemEnd] = []
    for problem in batch.problems:
        lines = {stage: lines_of_stage[problem.name] for stage, lines_of_stage in read.items()}
        failed = next((x.outcome for x in lines.values() if x.outcome.status != outcome.OK), None)
        if failed:
            skipped.append(skipped_by(job, problem.name, failed))
            continue
        known[problem.name] = {
            stage: {key: line.result[key] for key in PASSED_ON if key in line.result}
            | {"folder": str(batch.before[stage].parent / problem.name)}
            for stage, line in lines.items()
        }
    return known, skipped


def skipped_by(job: Job, name: str, above: Outcome) -> ProblemEnd:
    """Return the end of a problem that is not handled because of an outcome before."""
    job = dataclasses.replace(job, cell=problem_of_cell(job, name))
    return ProblemEnd(name, supervise.skipped(job, above))


def _damage(known: Known, batch: Batch) -> Damage | None:
    """Return the first damaged file that an earlier stage made for a problem, or None."""
    for results in known.values():
        for stage, result in results.items():
            if what := batch_worker.files_difference(Path(result["folder"]), result.get("files")):
                status = batch.before[stage].with_name(outcome.STATUS)
                return Damage(status, f"{what}; the next run makes it again")
    return None


FRUITLESS = 2
"""No worker is started after this many successive workers have ended before they began a task."""


class Host:
    """Starts workers that handle the tasks of a batch, and records how each task ends.

    Each task has its own time limit. If a worker crashes, hangs or takes too much memory, this is the outcome of the task
    that it was handling, and a new worker continues with the next task. If that task was not the first one of its worker, a
    new worker first handles it again, because earlier tasks may have caused the failure, for example by using memory.

    The id of a task is a digest of its cell and payload, so that a changed task has another id. The journal keeps the ends of
    tasks that are not among the given ones.
    """

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
        self._tasks: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """The name of the problem and the payload, by task."""
        self._journal = work / "journal.jsonl"
        self._of_worker = work / "worker" / "journal.jsonl"
        self._owner = os.getppid() if job.owner is None else job.owner
        self._log = work / "worker.txt"

    def run(self, tasks: Mapping[str, Mapping[str, Any]]) -> list[Ended]:
        """Run workers until all tasks have ended. Return the outcome of each worker.

        `tasks`: their payloads, JSON, by the name of the problem. Raises job.Interrupted if the run is stopped or its
        parent has died, and OSError if `work` cannot be written. The tasks that have ended are in the journal.
        """
        for name, payload in tasks.items():
            known_by = problem_of_cell(self._job, name), payload
            text = json.dumps(known_by, sort_keys=True, allow_nan=False)
            self._tasks[hashlib.sha256(text.encode()).hexdigest()[:16]] = name, payload
        left = self._not_kept()
        workers: list[Ended] = []
        ended, fruitless = Ended(), 0
        while left and fruitless < FRUITLESS:
            ended = self._worker(left)
            workers.append(ended)
            ends, begun = _entries(self._of_worker)
            for end in ends:
                left.remove(end.end)
                self._ended(end)
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
        # A host that was killed has not read the journal of its worker.
        ends = {
            end.end: end for path in (self._journal, self._of_worker) for end in _entries(path)[0]
        }
        kept = {}
        for task in ends.keys() & self._tasks.keys():
            line = self._line(ends[task])
            if outcome.still_stands(line.outcome, self._job) and not self._again(line):
                kept[task] = line
        stays = [end for task, end in ends.items() if task in kept or task not in self._tasks]
        lines = [json.dumps(dataclasses.asdict(end)) + "\n" for end in stays]
        atomic.write_text(self._journal, "".join(lines))
        for task in self._tasks:
            self._asked([task], Path("/dev/stdout")).write(self._folder_of(task))
            if task not in kept:
                self._log_of(task).unlink(missing_ok=True)
        for task in filter(kept.get, ends):
            self._done(kept[task])
        return [task for task in self._tasks if task not in kept]

    def _worker(self, tasks: Sequence[str]) -> Ended:
        folder = self._of_worker.parent
        self._of_worker.unlink(missing_ok=True)
        request = self._asked(tasks, self._of_worker)
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
        self._ended(_End(task, self._job.fingerprint, verdict=said, limit=limit))

    def _ended(self, end: _End) -> None:
        journal.append(self._journal, dataclasses.asdict(end))
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
        return ProblemEnd(self._tasks[end.end][0], ended, end.seconds, end.result)

    def _job_of(self, task: str) -> Job:
        """Return the job of a single task; its request repeats the task. The log of a task that was
        never begun is the log of the worker."""
        own = self._log_of(task)
        return dataclasses.replace(
            self._job,
            cell=problem_of_cell(self._job, self._tasks[task][0]),
            command=self._request.command(self._folder_of(task)),
            log_path=own if own.is_file() else self._log,
            artifacts=(),
        )

    def _asked(self, tasks: Sequence[str], to: Path) -> StageRequest:
        """The request for some tasks, whose ends are written to a file."""
        listed = [{"id": task, "payload": self._tasks[task][1]} for task in tasks]
        return self._request.replaced(tasks=listed, journal=to, under=self._job.fingerprint)

    def _folder_of(self, task: str) -> Path:
        return self._work / "tasks" / task

    def _log_of(self, task: str) -> Path:
        return self._work / "logs" / f"{task}.txt"


@dataclass(frozen=True)
class _End:
    """The end of a task, a line of a journal. `end`: the id of the task.

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


def _entries(path: Path) -> tuple[list[_End], list[str]]:
    """The tasks that have ended and those that have begun, by a journal. A line that a killed process has not completed is
    ignored."""
    ends, begun = [], []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with contextlib.suppress(msgspec.MsgspecError):
            entry = msgspec.json.decode(line, type=dict)
            if "begin" in entry:
                begun.append(entry["begin"])
            else:
                ends.append(msgspec.convert(entry, _End))
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
