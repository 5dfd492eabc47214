"""The supervisor: runs a stage of a cell as a process, enforces its limits and records its outcome.

A segmentation fault, an out-of-memory kill or a hang becomes a status file, and leaves no process running. Artifacts are written to a
scratch folder and renamed when the stage has succeeded, so an incomplete file is never mistaken for a complete one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.core import atomic, checkout
from scripts.core.atomic import Digest
from scripts.supervise import journal, outcome
from scripts.supervise.diagnose import Diagnosis, diagnose, pass_in_stack
from scripts.supervise.environment_damage import with_environment_damage
from scripts.supervise.job import CannotStart, Interrupted, Job, MoreNeeded
from scripts.supervise.outcome import Damage, Outcome, Usage
from scripts.supervise.watch import STACKS, CappedLog, Ended, Watch

SKIP_LIST = "skip-list"
"""Reason of a job that must not run because of a skip list, and not because of another stage."""
KNOWN_HANG = "known-hang"
"""Reason of a job that is not run because it is known not to end within minutes."""
SHORT_OF = {
    "time-limit": "more_time",
    "memory-limit": "more_memory",
    "kernel-oom-kill": "more_memory",
    "estimated": "more_memory",
}
"""Reasons that a larger limit may remove, and the field of Job that says whether there is one."""
FULL = (errno.ENOSPC, errno.EDQUOT)
TOO_MANY = (errno.EMFILE, errno.ENFILE, errno.EAGAIN)
FULL_BYTES = 1 << 20
"""A file system with less free space counts as full, and as the cause of any failure."""


@dataclass(frozen=True)
class Ran:
    """The result of running a stage: how it ended, and the digests of its artifacts by file name. `fault`: an error of
    the supervisor itself. `damage`: the damaged file because of which the stage was not started."""

    ended: Ended
    made: Mapping[str, Digest] = field(default_factory=dict)
    fault: Diagnosis | None = None
    damage: Damage | None = None


Work = Callable[[Job, int, Path, CappedLog], Ran]
"""Does the work of a job, given the process that must remain the parent of this one, the folder in
which artifacts are made, and the job's log."""


def run(job: Job, work: Work | None = None) -> Outcome:
    """Run a job, write status.json and usage.json, and return the outcome.

    `work`: what to do instead of running the command of the job as one process. The job then fails only if `work`
    raises an exception.

    Raises Interrupted if it is asked to stop (SIGTERM, SIGINT) or orphaned, MoreNeeded if a limit was reached and a
    further attempt would have a larger one, and OSError if the outcome cannot be written. In these cases the process
    tree has ended and no status is written, so that the next run, or the next attempt, repeats the job.
    """
    owner = job.required_parent()
    if job.request is not None:
        job.request.write(job.status_path.parent)
    if (above := blocked(job)) is not None:
        return _record_blocked(job, above)
    scratch = job.status_path.parent / ".scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    atomic.clear(scratch.parent)
    outcome.begin(job.status_path, job.due)
    started, begun = time.time(), time.monotonic()
    try:
        ran = _guarded(work or _as_process, job, owner, scratch)
        if ran.damage is not None:
            outcome.condemn(ran.damage.status_path, ran.damage.what)
            return _record_blocked(
                job, skipped(job, outcome.read_or_damaged(ran.damage.status_path))
            )
        diagnosis = ran.fault or (None if work else verdict(job, ran.ended, scratch))
        if diagnosis and getattr(job, SHORT_OF.get(diagnosis.reason, ""), False):
            raise MoreNeeded(f"{job.stage} {job.cell}: {diagnosis.detail}; to be run with more")
        keep = diagnosis is None or ran.ended.keeps_artifacts
        unplaced = _place_artifacts(job, scratch, keep)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)  # first of all, as the disk may be full
    result = record(job, unplaced or diagnosis)
    artifacts = {} if unplaced else ran.made
    usage = Usage(round(ran.ended.seconds, 3), ran.ended.max_rss_mb, artifacts)
    outcome.write(job.status_path, result, usage)
    with _noted(f"{job.stage} {job.cell} has no memory over time"):
        outcome.write_memory(job.status_path, ran.ended.memory)
    if job.journal is not None:
        line = {
            "stage": result.stage,
            "cell": result.cell,
            "status": result.status,
            "start": started,
            "end": started + time.monotonic() - begun,  # the clock may have been set
            "child_seconds": ran.ended.seconds,
            "startup_s": ran.ended.startup_s,
        }
        with _noted(f"{job.journal} lacks a line of {job.cell}"):
            journal.append(job.journal, line)
    return result


@contextlib.contextmanager
def _noted(lack: str) -> Iterator[None]:
    """Write something that the outcome of a job does not depend on: if that fails, print what is lacking."""
    try:
        yield
    except OSError as error:
        print(f"note: {lack}: {error}", file=sys.stderr)


def _guarded(work: Work, job: Job, owner: int, scratch: Path) -> Ran:
    """Do the work with the log of the job, and catch errors of the supervisor itself."""
    with contextlib.closing(CappedLog(job.log_path)) as log:
        log.note(_header(job))
        try:
            return work(job, owner, scratch, log)
        except Interrupted:
            raise
        except Exception as error:  # our own fault, not the stage's: a row all the same
            log.note(traceback.format_exc())
            return Ran(Ended(os.EX_SOFTWARE), fault=_own_fault(error))


def _as_process(job: Job, owner: int, scratch: Path, log: CappedLog) -> Ran:
    """Run the command of a job as one process, if the files that it reads are not damaged."""
    watch = Watch(job, owner, scratch, log)
    try:
        # Gigabytes are read for digests, which must not happen while another stage is timed.
        with watch.stop_requests():
            if damaged := outcome.first_damage(job.reads(), job.artifacts):
                return Ran(Ended(), damage=damaged)
            ended = watch.run()
            return Ran(ended, digests(job, scratch) if ended.keeps_artifacts else {})
    except CannotStart as error:
        log.note(f"error: {error}")
        return Ran(Ended(127))


def _own_fault(error: Exception) -> Diagnosis:
    """The diagnosis of an error of the supervisor itself."""
    number = error.errno if isinstance(error, OSError) else None
    reasons = dict.fromkeys(FULL, outcome.DISK_FULL) | dict.fromkeys(TOO_MANY, outcome.EXHAUSTED)
    reason = reasons.get(number or 0, "supervisor")
    return Diagnosis("error", reason, f"{type(error).__name__}: {error}")


def digests(job: Job, scratch: Path) -> dict[str, Digest]:
    """The digests of a stage's artifacts, by file name. Only files in the folder of its status count,
    because readers look for the digests there."""
    here = job.status_path.parent
    paths = (scratch / artifact.name for artifact in job.artifacts if artifact.parent == here)
    return {path.name: atomic.digest_of(path) for path in paths if path.is_file()}


def _record_blocked(job: Job, above: Outcome) -> Outcome:
    """Record the outcome of a job that was not started, and return it."""
    for artifact in job.artifacts:
        _make_empty(artifact)
    with contextlib.closing(CappedLog(job.log_path)) as log:
        by = f"blocked by {above.blocked_by}" if above.blocked_by else above.reason
        log.note(f"# {above.status}: {by}: {above.detail}")
    outcome.write(job.status_path, above, Usage(0.0, 0.0))
    with _noted(f"{job.stage} {job.cell} has no memory over time"):
        outcome.write_memory(job.status_path, None)
    return above


def _place_artifacts(job: Job, scratch: Path, keep: bool) -> Diagnosis | None:
    """Move the artifacts to their destination, or write empty files. Returns a diagnosis if that fails."""
    try:
        for artifact in job.artifacts:
            source = scratch / artifact.name
            if keep and source.is_file():
                atomic.move(source, artifact)
            else:
                _make_empty(artifact)
    except OSError as error:
        for artifact in job.artifacts:
            _make_empty(artifact)
        return _own_fault(error)
    return None


def blocked(job: Job) -> Outcome | None:
    """The outcome of a job that must not start: `skipped` if it is on a skip list or a stage before it
    failed, naming the first cause, and `timeout` if it is known to hang. None if it may start."""
    if job.skip:
        return record(job, Diagnosis(outcome.SKIPPED, SKIP_LIST, job.skip))
    for path in job.upstream:
        above = outcome.read_or_damaged(path)
        if above.status != outcome.OK:
            return skipped(job, above)
    if job.hang:
        return record(job, Diagnosis("timeout", KNOWN_HANG, f"not run: {job.hang}"))
    return None


def skipped(job: Job, above: Outcome) -> Outcome:
    """The outcome of a job that is skipped because of a stage before it."""
    by = above.blocked_by or ("" if above.reason == SKIP_LIST else f"{above.stage} {above.cell}")
    return record(job, Diagnosis(outcome.SKIPPED, above.reason, above.detail), by)


def _make_empty(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")


def _header(job: Job) -> str:
    return f"$ {shown(job)}"


def shown(job: Job) -> str:
    """The command of a job, as it can be run in the working folder."""
    prefix = checkout.prefix() if job.command[1:2] == ["-m"] else []
    return shlex.join([*prefix, *job.command])


def verdict(job: Job, ended: Ended, scratch: Path) -> Diagnosis | None:
    """The diagnosis of a failure, or None if the job succeeded: from its end, the output in its log, and its artifacts
    in `scratch`."""
    match ended.stopped_for:
        case "timeout":
            said = f"; last said: {ended.said}" if ended.said else ""
            stacks = _logged(job).partition(STACKS)[2]
            where = f", in the compiler's pass {name}" if (name := pass_in_stack(stacks)) else ""
            detail = f"still running after {job.timeout_s:g} s{where}{said}"
            return Diagnosis("timeout", "time-limit", detail)
        case "oom":
            detail = f"process tree held {ended.peak_seen_mb:.0f} MiB; the limit is {job.memory_mb:.0f} MiB"
            return Diagnosis("oom", "memory-limit", detail)
        case "kernel-oom":
            detail = (
                f"the kernel killed it for memory; at most {ended.max_rss_mb:.0f} MiB were seen"
            )
            return Diagnosis("oom", "kernel-oom-kill", detail)
        case "kernel-oom-of-others":
            detail = (
                f"killed by SIGKILL while the kernel killed for memory; it held {ended.max_rss_mb:.0f} MiB at most, so others may be the "
                "cause; the next run repeats it"
            )
            return Diagnosis("crashed", signal.SIGKILL.name, detail)
    if ended.returncode != 0:
        # The command in the header may contain "error:".
        printed = _logged(job).removeprefix(_header(job) + "\n")
        model_file = job.request.fields.get("model_file", "") if job.request else ""
        diagnosis = _with_full_disk(diagnose(ended.returncode, printed, model_file), scratch)
        return with_environment_damage(diagnosis, job.command[0])
    for artifact in job.artifacts:
        path = scratch / artifact.name
        if not path.is_file() or path.stat().st_size == 0:
            return Diagnosis(
                "error", "no-artifact", f"the stage exited 0 but wrote no {artifact.name}"
            )
    return None


def _logged(job: Job) -> str:
    return job.log_path.read_text(encoding="utf-8", errors="replace")


def record(job: Job, diagnosis: Diagnosis | None, blocked_by: str = "") -> Outcome:
    """The outcome of a job; it is ok if there is no diagnosis."""
    diagnosis = diagnosis or Diagnosis(outcome.OK, "", "")
    return Outcome(
        status=diagnosis.status,
        stage=job.stage,
        cell=job.cell,
        reason=diagnosis.reason,
        detail=diagnosis.detail,
        blocked_by=blocked_by,
        log=str(job.log_path),
        command=shown(job),
        fingerprint=job.fingerprint,
        due=job.due,
        limit={"timeout": job.timeout_s, "oom": job.memory_mb}.get(diagnosis.status),
    )


def _with_full_disk(diagnosis: Diagnosis, scratch: Path) -> Diagnosis:
    """The diagnosis, or `disk-full` if the disk is full: not every tool reports that, and the log may have lost it."""
    disk = os.statvfs(scratch.parent)
    if diagnosis.status not in ("error", "crashed") or diagnosis.reason == outcome.DISK_FULL:
        return diagnosis
    if disk.f_bavail * disk.f_frsize >= FULL_BYTES:
        return diagnosis
    detail = f"no space left on the file system of {scratch.parent}: {diagnosis.detail}"
    return Diagnosis("error", outcome.DISK_FULL, detail)
