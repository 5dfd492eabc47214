"""The one supervisor: every stage of every cell is a child process of this.

A segfault, an out-of-memory kill or a hang in a compiler becomes a status file; it never
stops the run and leaves nothing running behind. Artifacts are made in a scratch folder and
renamed when the stage has ended well, so that a half-written one is never taken for whole.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import time
import traceback
from pathlib import Path
from typing import Any

from scripts.lib.supervision import journal, outcome
from scripts.lib.supervision.caplog import CappedLog
from scripts.lib.supervision.diagnose import Diagnosis, diagnose
from scripts.lib.supervision.job import CannotStart, Interrupted, Job, MoreNeeded
from scripts.lib.supervision.outcome import Outcome, Usage
from scripts.lib.supervision.watch import Ended, Watch

SKIP_LIST = "skip-list"
"""Reason of a job that was not to be run: nothing blocked it."""
SHORT_OF = {
    "time-limit": "more_time",
    "memory-limit": "more_memory",
    "kernel-oom-kill": "more_memory",
    "estimated": "more_memory",
}
"""Reasons that a larger limit may do away with, and what says that one is to be had."""


def run(job: Job) -> Outcome:
    """Run a job to its outcome, write status.json and usage.json, and return the outcome.

    Raises Interrupted when asked to stop (SIGTERM, SIGINT) or orphaned, and MoreNeeded when a
    limit was met and a larger one is to be had; the process tree is gone by then and no status is
    written, so that the next run, or the next attempt, makes this job again.
    """
    owner = os.getppid() if job.owner is None else job.owner
    if os.getppid() != owner:
        raise Interrupted(f"{job.stage} {job.cell}: process {owner} that asked for it is gone")
    blocked = _blocked(job)
    if blocked is not None:
        _record_blocked(job, blocked)
        return blocked
    scratch = job.status_path.parent / ".scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    outcome.begin(job.status_path, job.due)
    started = time.time()
    try:
        ended, fault = _watched(job, owner, scratch)
        diagnosis = fault or _verdict(job, ended, scratch)
        if diagnosis and getattr(job, SHORT_OF.get(diagnosis.reason, ""), False):
            raise MoreNeeded(f"{job.stage} {job.cell}: {diagnosis.detail}; to be run with more")
        _place_artifacts(job, scratch, keep=diagnosis is None or ended.keeps_artifacts)
        result = _outcome(job, diagnosis)
        outcome.write(job.status_path, result, Usage(round(ended.seconds, 3), ended.max_rss_mb))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if job.journal is not None:
        journal.append(job.journal, _accounting(result, ended, started))
    return result


def _watched(job: Job, owner: int, scratch: Path) -> tuple[Ended, Diagnosis | None]:
    """Run the stage with its log: how it ended, and what is wrong where the supervisor failed."""
    with contextlib.closing(CappedLog(job.log_path)) as log:
        log.note(_header(job))
        try:
            return Watch(job, owner, scratch, log).run(), None
        except CannotStart as error:
            log.note(f"error: {error}")
            return Ended(127, 0.0, 0.0), None
        except Interrupted:
            raise
        except Exception as error:  # our own fault, not the stage's: a row all the same
            log.note(traceback.format_exc())
            fault = Diagnosis("error", "supervisor", f"{type(error).__name__}: {error}")
            return Ended(os.EX_SOFTWARE, 0.0, 0.0), fault


def _record_blocked(job: Job, blocked: Outcome) -> None:
    for artifact in job.artifacts:
        _make_empty(artifact)
    with contextlib.closing(CappedLog(job.log_path)) as log:
        by = f"blocked by {blocked.blocked_by}" if blocked.blocked_by else blocked.reason
        log.note(f"# skipped: {by}: {blocked.detail}")
    outcome.write(job.status_path, blocked, Usage(0.0, 0.0))


def _accounting(result: Outcome, ended: Ended, started: float) -> dict[str, Any]:
    """The journal's line of a job that started at `started`, in seconds since the epoch."""
    return {
        "stage": result.stage,
        "cell": result.cell,
        "status": result.status,
        "start": started,
        "end": time.time(),
        "child_seconds": ended.seconds,
        "startup_s": ended.startup_s,
        "waited_s": ended.waited_s,
        "alone_s": ended.alone_s,
    }


def _header(job: Job) -> str:
    return f"$ {shlex.join(job.command)}"


def _printed(job: Job) -> str:
    """What the stage printed, not what we wrote above it: a command may hold "error:"."""
    text = job.log_path.read_text(encoding="utf-8", errors="replace")
    return text.removeprefix(_header(job) + "\n")


def _last_words(job: Job) -> str:
    return next((line.strip() for line in reversed(_printed(job).splitlines()) if line.strip()), "")


def _verdict(job: Job, ended: Ended, scratch: Path) -> Diagnosis | None:
    """None where the stage did what it is for."""
    if ended.stopped_for == "timeout":
        said = _last_words(job)
        detail = f"still running after {job.timeout_s:g} s" + (
            f"; last said: {said}" if said else ""
        )
        return Diagnosis("timeout", "time-limit", detail)
    if ended.stopped_for == "oom":
        return Diagnosis(
            "oom",
            "memory-limit",
            f"process tree held {ended.peak_seen_mb:.0f} MiB; the limit is {job.memory_mb:.0f} MiB",
        )
    if ended.stopped_for == "kernel-oom":
        return Diagnosis(
            "oom",
            "kernel-oom-kill",
            f"the kernel killed it for memory; at most {ended.max_rss_mb:.0f} MiB were seen",
        )
    if ended.returncode != 0:
        return diagnose(ended.returncode, _printed(job))
    for artifact in job.artifacts:
        made = scratch / artifact.name
        if not made.is_file() or made.stat().st_size == 0:
            return Diagnosis(
                "error", "no-artifact", f"the stage exited 0 but wrote no {artifact.name}"
            )
    return None


def _place_artifacts(job: Job, scratch: Path, keep: bool) -> None:
    for artifact in job.artifacts:
        made = scratch / artifact.name
        if keep and made.is_file():
            artifact.parent.mkdir(parents=True, exist_ok=True)
            os.replace(made, artifact)
        else:
            _make_empty(artifact)


def _outcome(job: Job, diagnosis: Diagnosis | None) -> Outcome:
    return Outcome(
        status=diagnosis.status if diagnosis else outcome.OK,
        stage=job.stage,
        cell=job.cell,
        reason=diagnosis.reason if diagnosis else "",
        detail=diagnosis.detail if diagnosis else "",
        log=str(job.log_path),
        command=shlex.join(job.command),
        fingerprint=job.fingerprint,
        due=job.due,
        limit={"timeout": job.timeout_s, "oom": job.memory_mb}.get(diagnosis.status)
        if diagnosis
        else None,
    )


def _blocked(job: Job) -> Outcome | None:
    """A skipped outcome if the job is on a skip list, or anything upstream did not end well;
    names the first cause."""
    if job.skip:
        return _skipped(job, SKIP_LIST, job.skip, "")
    for path in job.upstream:
        above = outcome.read(path)
        if above.status == outcome.OK:
            continue
        by = above.blocked_by or (
            "" if above.reason == SKIP_LIST else f"{above.stage} {above.cell}"
        )
        return _skipped(job, above.reason, above.detail, by)
    return None


def _skipped(job: Job, reason: str, detail: str, blocked_by: str) -> Outcome:
    return Outcome(
        status=outcome.SKIPPED,
        stage=job.stage,
        cell=job.cell,
        reason=reason,
        detail=detail,
        blocked_by=blocked_by,
        log=str(job.log_path),
        command=shlex.join(job.command),
        fingerprint=job.fingerprint,
        due=job.due,
    )


def _make_empty(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
