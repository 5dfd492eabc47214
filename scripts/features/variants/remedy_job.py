"""Compiles a program in other ways where its compilation, as asked, has failed.

The attempts are made one after another, each as a job of its own with its own log and outcome below
`tries/`, until one succeeds. An attempt that failed before with the same program, command, code and
environment is not repeated. The outcome of the whole is ok if there was nothing to remedy or an
attempt has succeeded; otherwise it is skipped, and names the failure of what was asked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic, digest
from scripts.supervise import outcome, supervise, verdict
from scripts.supervise.caplog import CappedLog
from scripts.supervise.job import Interrupted, Job
from scripts.supervise.outcome import Outcome, Usage

TRIES = "tries"
"""Folder of the attempts, in that of the job."""


class Attempt(msgspec.Struct, frozen=True):
    """One attempt, as the rule's command line gives it.

    `remedy`: its name. `frontend`, `opt_level`, `flags`: what it compiles and how. `reasons`: of the first
    failures for which it is made. `options`: of the stage's command. `program`: the file to compile;
    `export`: the status file of the stage that made it. `hang`: why it is not run ("": it is run).
    """

    remedy: str
    frontend: str
    opt_level: str
    flags: tuple[str, ...]
    reasons: tuple[str, ...]
    options: tuple[str, ...]
    program: str
    export: str
    hang: str = ""


def to_text(attempts: Iterable[Attempt]) -> str:
    """Attempts as one line of JSON. Equal attempts give equal text."""
    return json.dumps(msgspec.to_builtins(list(attempts)), separators=(",", ":"))


def of_text(text: str) -> tuple[Attempt, ...]:
    """The attempts that `to_text` has written. Raises ValueError."""
    return msgspec.json.decode(text, type=tuple[Attempt, ...])


def table_digest(attempts: Sequence[Attempt]) -> str:
    """A hash (6 hex digits) of everything that attempts consist of."""
    return hashlib.sha256(to_text(attempts).encode()).hexdigest()[:6]


def fingerprint(code: str, attempts: Sequence[Attempt]) -> str:
    """What may change how a failure is remedied: the code of the stage, and the attempts."""
    return f"{code}~{table_digest(attempts)}"


def code_of(fingerprint: str) -> str:
    """The code's part of such a fingerprint."""
    return fingerprint.partition("~")[0]


def wanted(attempts: Iterable[Attempt], reason: str) -> list[Attempt]:
    """The attempts that are made after a failure with this reason."""
    return [attempt for attempt in attempts if reason in attempt.reasons]


@dataclass(frozen=True)
class Tried:
    """An attempt, how it ended, and after how many seconds; `job` is None if it was not run."""

    attempt: Attempt
    outcome: Outcome
    seconds: float
    job: Job | None = None

    def to_json(self) -> dict[str, Any]:
        """Its part of the report."""
        ended = self.outcome
        return {
            "remedy": self.attempt.remedy,
            "frontend": self.attempt.frontend,
            "opt_level": self.attempt.opt_level,
            "flags": list(self.attempt.flags),
            "status": ended.status,
            "reason": ended.reason,
            "detail": ended.detail,
            "seconds": round(self.seconds, 3),
            "attempt": table_digest([self.attempt]),
        }


def run(job: Job, asked: Path, attempts: Sequence[Attempt], pins: str) -> Outcome:
    """Remedy the failure that the status file `asked` records, if it is one; write the outcome.

    `job` is the whole: its command is that of an attempt without the options of the attempt, its
    artifacts are those of an attempt, of which the last one is the report, and its time limit is
    that of all attempts together. `pins` names the environment of the command. Raises what
    supervise.run raises.
    """
    owner = os.getppid() if job.owner is None else job.owner
    if os.getppid() != owner:
        raise Interrupted(f"{job.stage} {job.cell}: process {owner} that asked for it is gone")
    job = dataclasses.replace(
        job, owner=owner, fingerprint=fingerprint(job.fingerprint, attempts), upstream=[*job.upstream, asked]
    )  # fmt: skip
    outcome.begin(job.status_path, job.due)
    failed = outcome.read_or_damaged(asked)
    started = time.monotonic()
    tried: list[Tried] = []
    if failed.is_remediable:
        tried = list(_until_one_works(job, wanted(attempts, failed.reason), pins))
    result = _result(job, tried)
    _log(job, failed, tried)
    made = _place(job, attempts, tried)
    peak = max([0.0, *(_usage(one.job).max_rss_mb for one in tried if one.job)])
    outcome.write(job.status_path, result, Usage(time.monotonic() - started, peak, made))
    return result


def _until_one_works(job: Job, attempts: Sequence[Attempt], pins: str) -> Iterator[Tried]:
    """Make the attempts in order. The last one yielded may have succeeded."""
    left_s = job.timeout_s
    for attempt in attempts:
        if attempt.hang:
            yield Tried(attempt, _not_run(job, "known-hang", attempt.hang), 0.0)
            continue
        one = _job_of(job, attempt, pins, left_s)
        before = _same_failure(one)
        if before is None and left_s < 1:
            detail = f"the attempts before it have used the time limit of {job.timeout_s:g} s"
            yield Tried(attempt, _not_run(job, "time-limit", detail), 0.0)
            continue
        started = time.monotonic()
        ended = before or supervise.run(one)
        seconds = 0.0 if before else time.monotonic() - started
        left_s -= seconds
        yield Tried(attempt, ended, seconds, one)
        if ended.status == outcome.OK:
            return


def _job_of(job: Job, attempt: Attempt, pins: str, timeout_s: float) -> Job:
    """The job of an attempt. Its `due` names everything that may change how it ends, except its limits."""
    folder = job.status_path.parent / TRIES / attempt.remedy
    moved = {str(path): str(folder / path.name) for path in job.artifacts}
    command = [*(moved.get(word, word) for word in job.command), "--program", attempt.program, *attempt.options]  # fmt: skip
    program = Path(attempt.program)
    content = str(digest.of(program)) if program.is_file() else ""
    counter = job.due.rpartition("+")[2] if "+" in job.due else ""
    key = json.dumps([code_of(job.fingerprint), pins, command, content, counter])
    return dataclasses.replace(
        job,
        command=command,
        status_path=folder / outcome.STATUS,
        log_path=folder / job.log_path.name,
        artifacts=[Path(path) for path in moved.values()],
        upstream=[Path(attempt.export)],
        timeout_s=timeout_s,
        due=hashlib.sha256(key.encode()).hexdigest()[:12],
    )


def _same_failure(job: Job) -> Outcome | None:
    """The recorded failure of the same attempt, if repeating it would change nothing."""
    try:
        found = outcome.read(job.status_path)
    except (OSError, ValueError):
        return None
    if found.due != job.due or not found.is_remediable:
        return None
    more_time = found.status == "timeout" and job.timeout_s > (found.limit or 0.0)
    more_memory = found.status == "oom" and job.memory_mb > (found.limit or 0.0)
    return None if more_time or more_memory else found


def _not_run(job: Job, reason: str, detail: str) -> Outcome:
    return Outcome(outcome.SKIPPED, job.stage, job.cell, reason, detail)


def _result(job: Job, tried: Sequence[Tried]) -> Outcome:
    """The outcome of the whole."""
    if tried and tried[-1].outcome.status == outcome.OK:
        return verdict.record(job, None)
    for one in tried:
        if one.outcome.is_passing:  # it says nothing about the cell: the next run tries again
            return dataclasses.replace(one.outcome, fingerprint=job.fingerprint, due=job.due)
    return supervise.blocked(job) or verdict.record(job, None)


def _log(job: Job, failed: Outcome, tried: Sequence[Tried]) -> None:
    with contextlib.closing(CappedLog(job.log_path)) as log:
        if failed.status == outcome.OK:
            log.note("# it compiles as asked: there is nothing to remedy")
            return
        log.note(f"# as asked: {failed.status} ({failed.reason}): {failed.detail}")
        for one in tried:
            ended = one.outcome
            why = f" ({ended.reason}): {ended.detail}" if ended.status != outcome.OK else ""
            where = f", see {one.job.log_path}" if one.job else ""
            log.note(f"# {one.attempt.remedy}: {ended.status}{why}{where}")


def _place(
    job: Job, attempts: Sequence[Attempt], tried: Sequence[Tried]
) -> dict[str, digest.Digest]:
    """Write the artifacts of the whole: those of the attempt that has succeeded, or empty files, and
    the report, which also names the frontends of all attempts. Returns their digests."""
    *others, report = job.artifacts
    works = tried[-1] if tried and tried[-1].outcome.status == outcome.OK else None
    for path in others:
        if works and works.job:
            atomic.move(works.job.status_path.with_name(path.name), path)
        else:
            path.write_bytes(b"")
    found: dict[str, Any] = {
        "name": works.attempt.remedy if works else None,
        "tried": [one.to_json() for one in tried],
        "frontends": list(dict.fromkeys(attempt.frontend for attempt in attempts)),
        "limits": {"timeout": job.timeout_s, "oom": job.memory_mb},
    }
    if works and works.job:
        found |= {
            "frontend": works.attempt.frontend,
            "opt_level": works.attempt.opt_level,
            "flags": list(works.attempt.flags),
            "compile": atomic.read_json(works.job.status_path.with_name(report.name)),
        }
    atomic.write_json(report, found)
    return {path.name: digest.of(path) for path in job.artifacts}


def _usage(job: Job) -> Usage:
    return outcome.read_usage(job.status_path) or Usage(0.0, 0.0)
