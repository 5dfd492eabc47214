"""The work of a stage on a batch of problems: its tasks, and the file with their outcomes.

A problem is a task of the stage if all stages before it ended well for this problem. Otherwise it is
skipped, with the reason of the first failure. Unlike a model, each problem of a batch has its own
outcome in every stage.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.features.operators.batch import artifacts, host
from scripts.features.operators.batch.host import Handled, Task
from scripts.features.operators.problems.problem import Problem
from scripts.supervise import damage, outcome, outcomes, supervise
from scripts.supervise.caplog import CappedLog
from scripts.supervise.damage import Damage
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome
from scripts.supervise.outcomes import Line
from scripts.supervise.supervise import Ran
from scripts.supervise.watch import Ended

PASSED_ON = ("files", "module", "function", "shortest")
"""Values of a result that later stages use, besides the folder of the problem. A task changes with
them, and with nothing else of the stages before it."""

Again = Callable[[Outcome], bool]
"""Whether a problem has to be handled again, although it has not changed."""


@dataclass(frozen=True)
class Batch:
    """A batch in a stage. `problems`: all of them, in order. `before`: outcomes.jsonl of the stages
    before it, in order, by the names of the stages. `pins`: of the environment."""

    problems: Sequence[Problem]
    before: Mapping[str, Path]
    pins: str
    again: Again


Do = Callable[[Job, Mapping[str, Mapping[str, Any]], Batch], tuple[list[Line], list[Ended]]]
"""Handles problems, given their results of the stages before by the name of the problem. Returns a
line for each of them, and how its processes ended."""


def work(batch: Batch, do: Do) -> supervise.Work:
    """Return the work of a job: it does `do` with a batch, and writes the job's artifact."""

    def run(job: Job, owner: int, scratch: Path, log: CappedLog) -> Ran:
        if damaged := damage.first([str(path) for path in batch.before.values()], ()):
            return Ran(Ended(0, 0.0, 0.0), damage=damaged)
        known, skipped = _sorted_out(job, batch)
        if damaged := _damage(known, batch):
            return Ran(Ended(0, 0.0, 0.0), damage=damaged)
        lines, processes = do(dataclasses.replace(job, owner=owner), known, batch)
        ended = {line.problem: line for line in [*lines, *skipped]}
        (made,) = job.artifacts
        ordered = [ended[problem.name] for problem in batch.problems]
        outcomes.write(scratch / made.name, ordered)
        log.note(counted(ordered))
        return Ran(_sum(processes), supervise.digests(job, scratch))

    return run


def in_workers(
    job: Job, known: Mapping[str, Mapping[str, Any]], batch: Batch
) -> tuple[list[Line], list[Ended]]:
    """Handle problems by the command of a job, which is that of a worker (see worker.py).

    The worker writes the files of a problem into the folder of the job, in a folder with the name of
    the problem.
    """
    folder = job.status_path.parent
    names, tasks = {}, []
    for problem in batch.problems:
        if problem.name in known:
            payload = {
                "op": problem.op,
                "args": problem.args,
                "before": known[problem.name],
                "under": [batch.pins, shlex.join(job.command)],
            }
            tasks.append(Task(cell_of(job, problem.name), payload))
            names[tasks[-1].name] = problem.name
    lines: list[Line] = []

    def done(one: Handled) -> None:
        lines.append(Line(names[one.outcome.cell], one.outcome, one.seconds, one.result))

    def again(one: Handled) -> bool:
        files = one.result.get("files")
        own = folder / names[one.outcome.cell]
        is_ok = one.outcome.status == outcome.OK
        return batch.again(one.outcome) or bool(
            is_ok and files and artifacts.difference(own, files)
        )

    return lines, host.run(job, tasks, folder, done, again)


def _sorted_out(job: Job, batch: Batch) -> tuple[dict[str, dict[str, Any]], list[Line]]:
    """Return what the problems to handle know of the stages before, by name; and skipped problems."""
    read = {stage: outcomes.read(path) for stage, path in batch.before.items()}
    known: dict[str, dict[str, Any]] = {}
    skipped: list[Line] = []
    for problem in batch.problems:
        lines = {stage: found[problem.name] for stage, found in read.items()}
        failed = next((x.outcome for x in lines.values() if x.outcome.status != outcome.OK), None)
        if failed is None:
            known[problem.name] = {
                stage: _passed_on(line, batch.before[stage].parent) for stage, line in lines.items()
            }
        else:
            skipped.append(Line(problem.name, skipped_by(job, problem.name, failed)))
    return known, skipped


def _passed_on(line: Line, folder: Path) -> dict[str, Any]:
    """Return what later stages use of a stage's result. `folder`: that of its batch."""
    found = {key: line.result[key] for key in PASSED_ON if key in line.result}
    return found | {"folder": str(folder / line.problem)}


def _damage(known: Mapping[str, Mapping[str, Any]], batch: Batch) -> Damage | None:
    """Return the first damaged file that an earlier stage made for a problem, or None."""
    for name in known:
        for stage, result in known[name].items():
            files = result.get("files")
            if files and (what := artifacts.difference(Path(result["folder"]), files)):
                status = batch.before[stage].with_name(outcome.STATUS)
                return Damage(status, f"{what}; the next run makes it again")
    return None


def skipped_by(job: Job, name: str, above: Outcome) -> Outcome:
    """Return the outcome of a problem that is not handled because of an outcome before."""
    return Outcome(
        status=outcome.SKIPPED,
        stage=job.stage,
        cell=cell_of(job, name),
        reason=above.reason,
        detail=above.detail,
        blocked_by=above.blocked_by or f"{above.stage} {above.cell}",
        log=str(job.log_path),
        fingerprint=job.fingerprint,
    )


def cell_of(job: Job, name: str) -> str:
    """Return the name of a problem in a cell of a stage, for its outcome."""
    return f"{job.cell}: {name}"


def counted(lines: Iterable[Line]) -> str:
    """Return the number of problems by status, for the log."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.outcome.status] = counts.get(line.outcome.status, 0) + 1
    return "# problems: " + (", ".join(f"{n} {status}" for status, n in counts.items()) or "none")


def _sum(processes: Sequence[Ended]) -> Ended:
    """Return the end of a job from those of its processes, which ran one after another."""
    return Ended(
        returncode=0,
        seconds=sum(one.seconds for one in processes),
        max_rss_mb=max((one.max_rss_mb for one in processes), default=0.0),
        startup_s=sum(one.startup_s or 0.0 for one in processes),
    )
