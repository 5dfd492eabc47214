"""Compiles a program in other ways where its compilation, as requested, has failed.

The attempts are made one after another, each as a separate job with its own log and outcome below
`tries/`, until one succeeds. An attempt that failed before with the same program, command, code and
environment is not repeated. The outcome of the whole is ok if there was nothing to remedy or an
attempt has succeeded; otherwise it is skipped, and names the failure of what was requested.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.config import compile_tables
from scripts.config.compile_tables import Attempt
from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.supervise import outcome, supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome, Usage
from scripts.supervise.watch import CappedLog
from scripts.tools.variants.candidates import TriedWay, step

TRIES = "tries"
"""Folder of the attempts, in that of the job."""


@dataclass
class Tried(TriedWay[Attempt]):
    """An attempt, and the seconds that it has taken. `job`: None if it was not run."""

    seconds: float = 0.0
    job: Job | None = None

    def to_json(self) -> dict[str, Any]:
        """Its part of the report."""
        assert self.ended is not None
        return {
            "remedy": self.name,
            "frontend": self.way.frontend,
            "opt_level": self.way.opt_level,
            "flags": list(self.way.flags),
            "status": self.ended.status,
            "reason": self.ended.reason,
            "detail": self.ended.detail,
            "seconds": round(self.seconds, 3),
            "attempt": compile_tables.digest([self.way]),
        }

    def said(self) -> str:
        where = f", see {self.job.log_path}" if self.job else ""
        return f"{super().said()}{where}"


def run(job: Job, compile_status: Path, attempts: Sequence[Attempt], pins: str) -> Outcome:
    """Remedy the failure that the status file `compile_status` records, if it is one; write the outcome.

    `job` is the whole: its request is that of an attempt without the fields of the attempt, its
    artifacts are those of an attempt, of which the last one is the report, and its time limit is
    that of all attempts together. `pins` names the environment of the command. Raises what
    supervise.run raises.
    """
    requested = job.request
    assert requested is not None
    job = dataclasses.replace(
        job,
        command=(),
        request=None,
        owner=job.required_parent(),
        fingerprint=compile_tables.fingerprint(job.fingerprint, attempts),
        upstream=[*job.upstream, compile_status],
    )
    outcome.begin(job.status_path, job.due)
    failed = outcome.read_or_damaged(compile_status)
    started = time.monotonic()
    tried: list[Tried] = []
    if failed.is_remediable:
        tried = list(
            _until_one_works(job, requested, compile_tables.wanted(attempts, failed.reason), pins)
        )
    works = tried[-1] if tried and tried[-1].is_ok else None
    result = supervise.record(job, None) if works else _failure(job, tried)
    if works and works.ended:
        result = dataclasses.replace(result, command=works.ended.command)
    _log(job, failed, tried)
    artifacts = _place(job, attempts, tried, works)
    used = (outcome.read_usage(attempt.job.status_path) for attempt in tried if attempt.job)
    peak = max([0.0, *(usage.max_rss_mb for usage in used if usage)])
    outcome.write(job.status_path, result, Usage(time.monotonic() - started, peak, artifacts))
    return result


def _until_one_works(
    job: Job, requested: StageRequest, attempts: Sequence[Attempt], pins: str
) -> Iterator[Tried]:
    """Make the attempts in order. The last one yielded may have succeeded."""

    def not_run(reason: str, detail: str) -> Tried:
        return Tried(attempt, Outcome(outcome.SKIPPED, job.stage, job.cell, reason, detail))

    left_s = job.timeout_s
    for attempt in attempts:
        if attempt.hang:
            yield not_run("known-hang", attempt.hang)
            continue
        request = requested.replaced(program=attempt.program, **attempt.target)
        own = _job_of(job, request, attempt, pins, left_s)
        before = _same_failure(own)
        if before is None and left_s < 1:
            detail = f"the attempts before it have used the time limit of {job.timeout_s:g} s"
            yield not_run("time-limit", detail)
            continue
        started = time.monotonic()
        ended = before or supervise.run(own)
        seconds = 0.0 if before else time.monotonic() - started
        left_s -= seconds
        yield Tried(attempt, ended, seconds, own)
        if ended.status == outcome.OK:
            return


def _job_of(job: Job, request: StageRequest, attempt: Attempt, pins: str, timeout_s: float) -> Job:
    """The job of an attempt. Its `due` names everything that may change how it ends, except its limits."""
    folder = job.status_path.parent / TRIES / attempt.name
    artifacts = [folder / path.name for path in job.artifacts]
    program = Path(attempt.program)
    content = str(atomic.digest_of(program)) if program.is_file() else ""
    counter = job.due.rpartition("+")[2] if "+" in job.due else ""
    of_request = dataclasses.asdict(request)
    key = json.dumps([compile_tables.code_of(job.fingerprint), pins, of_request, content, counter])
    due = hashlib.sha256(key.encode()).hexdigest()[:12]
    return step(job, attempt, folder, request, artifacts, timeout_s=timeout_s, due=due)


def _same_failure(job: Job) -> Outcome | None:
    """The recorded failure of the same attempt, if repeating it would change nothing."""
    try:
        ended = outcome.read(job.status_path)
    except (OSError, ValueError):
        return None
    if ended.due != job.due or not ended.is_remediable:
        return None
    limits = {"timeout": job.timeout_s, "oom": job.memory_mb}
    has_more = limits.get(ended.status, 0.0) > (ended.limit or 0.0)
    return None if has_more else ended


def _failure(job: Job, tried: Sequence[Tried]) -> Outcome:
    """The outcome of the whole if no attempt has succeeded."""
    for attempt in tried:
        if (
            attempt.ended and attempt.ended.is_passing
        ):  # it says nothing about the cell: the next run tries again
            return dataclasses.replace(attempt.ended, fingerprint=job.fingerprint, due=job.due)
    return supervise.blocked(job) or supervise.record(job, None)


def _log(job: Job, failed: Outcome, tried: Sequence[Tried]) -> None:
    with contextlib.closing(CappedLog(job.log_path)) as log:
        if failed.status == outcome.OK:
            log.note("# it compiles as asked: there is nothing to remedy")
            return
        log.note(f"# as asked: {failed.status} ({failed.reason}): {failed.detail}")
        for attempt in tried:
            log.note(f"# {attempt.said()}")


def _place(
    job: Job, attempts: Sequence[Attempt], tried: Sequence[Tried], works: Tried | None
) -> dict[str, atomic.Digest]:
    """Write the artifacts of the whole: those of the attempt that works, or empty files, and
    the report, which also names the frontends of all attempts. Returns their digests."""
    *others, report = job.artifacts
    values: dict[str, Any] = {
        "name": works.name if works else None,
        "tried": [attempt.to_json() for attempt in tried],
        "frontends": list(dict.fromkeys(attempt.frontend for attempt in attempts)),
        "limits": {"timeout": job.timeout_s, "oom": job.memory_mb},
    }
    for path in others:
        path.write_bytes(b"")
    if works and works.job:
        folder = works.job.status_path.parent
        for path in others:
            atomic.move(folder / path.name, path)
        values |= {
            "frontend": works.way.frontend,
            "opt_level": works.way.opt_level,
            "flags": list(works.way.flags),
            "compile": atomic.read_json(folder / report.name),
        }
    atomic.write_json(report, values)
    return {path.name: atomic.digest_of(path) for path in job.artifacts}
