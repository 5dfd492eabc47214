"""The work of a stage on a batch of problems: its tasks, and the file with their outcomes.

A problem is a task of the stage if all stages before it ended well for this problem. Otherwise it is skipped, with the
reason of the first failure. Unlike a model, each problem of a batch has its own outcome in every stage.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core.commands import option
from scripts.features.operators.batch import batch_worker
from scripts.features.operators.batch.host import Host
from scripts.features.operators.problems.problem import Problem, read_problems
from scripts.run import fingerprint
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Damage, Outcome, ProblemEnd, problem_of_cell
from scripts.supervise.supervise import Ran
from scripts.supervise.watch import CappedLog, Ended

PASSED_ON = ("files", "module", "function", "shortest")
"""Values of a result that later stages use, besides the folder of the problem. A task changes with
them, and with nothing else of the stages before it."""


@dataclass(frozen=True)
class Batch:
    """A batch in a stage. `problems`: all of them, in order. `before`: outcomes.jsonl of the stages
    before it, in order, by the names of the stages. `pins`: of the environment. `again`: whether a
    problem has to be handled again, although it has not changed."""

    problems: Sequence[Problem]
    before: Mapping[str, Path]
    pins: str
    again: Callable[[Outcome], bool]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a command that runs a stage on a batch is given beside the options of job_arguments."""

    problems: Path = option(help="JSONL: those of the batch")
    before: Sequence[Path] = option(
        (),
        nargs="*",
        type=Path,
        help="outcomes.jsonl of the stages before, results/<stage>/<cell>/outcomes.jsonl",
    )
    pins: str = option("", help="digest of the environment's pins")
    retry: str = option("", help="statuses of problems to handle again, separated by commas")

    def batch(self, job: Job) -> Batch:
        """Return the batch that a job works on."""
        retry = frozenset(filter(None, self.retry.split(",")))
        return Batch(
            read_problems(self.problems),
            {path.parts[path.parts.index("results") + 1]: path for path in self.before},
            self.pins,
            lambda ended: fingerprint.is_wanted(ended, job.fingerprint, retry),
        )


Known = Mapping[str, Mapping[str, Any]]
"""The results of earlier stages of the problems to handle, by name."""
Do = Callable[[Job, Known, Batch], tuple[list[ProblemEnd], list[Ended]]]
"""Handles the problems that have such results. Returns a line for each, and the outcomes of its processes."""


def work(batch: Batch, do: Do) -> supervise.Work:
    """Return the work of a job: it does `do` with a batch, and writes the job's artifact."""

    def run(job: Job, owner: int, scratch: Path, log: CappedLog) -> Ran:
        if damaged := outcome.first_damage([str(path) for path in batch.before.values()]):
            return Ran(Ended(0, 0.0, 0.0), damage=damaged)
        known, skipped = _sorted_out(job, batch)
        if damaged := _damage(known, batch):
            return Ran(Ended(0, 0.0, 0.0), damage=damaged)
        lines, processes = do(dataclasses.replace(job, owner=owner), known, batch)
        by_name = {line.problem: line for line in [*lines, *skipped]}
        write(job, scratch, log, [by_name[problem.name] for problem in batch.problems])
        ended = Ended(
            returncode=0,
            seconds=sum(process.seconds for process in processes),
            max_rss_mb=max((process.max_rss_mb for process in processes), default=0.0),
            startup_s=sum(process.startup_s or 0.0 for process in processes),
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


def in_workers(job: Job, known: Known, batch: Batch) -> tuple[list[ProblemEnd], list[Ended]]:
    """Handle problems by the request of a job, which is that of a worker (batch_worker.py). The worker writes the files
    of a problem into the folder of the job, in a folder with the name of the problem."""
    folder = job.status_path.parent
    assert job.request is not None
    under = [batch.pins, dataclasses.asdict(job.request)]
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
            skipped.append(ProblemEnd(problem.name, skipped_by(job, problem.name, failed)))
            continue
        known[problem.name] = {
            stage: {key: line.result[key] for key in PASSED_ON if key in line.result}
            | {"folder": str(batch.before[stage].parent / problem.name)}
            for stage, line in lines.items()
        }
    return known, skipped


def skipped_by(job: Job, name: str, above: Outcome) -> Outcome:
    """Return the outcome of a problem that is not handled because of an outcome before."""
    return Outcome(
        status=outcome.SKIPPED,
        stage=job.stage,
        cell=problem_of_cell(job, name),
        reason=above.reason,
        detail=above.detail,
        blocked_by=above.blocked_by or f"{above.stage} {above.cell}",
        log=str(job.log_path),
        fingerprint=job.fingerprint,
    )


def _damage(known: Known, batch: Batch) -> Damage | None:
    """Return the first damaged file that an earlier stage made for a problem, or None."""
    for results in known.values():
        for stage, result in results.items():
            if what := batch_worker.files_difference(Path(result["folder"]), result.get("files")):
                status = batch.before[stage].with_name(outcome.STATUS)
                return Damage(status, f"{what}; the next run makes it again")
    return None
