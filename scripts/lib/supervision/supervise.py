"""The one supervisor: every stage of every cell is a child process of this.

A segfault, an out-of-memory kill or a hang in a compiler becomes a status file; it never
stops the run and leaves nothing running behind. Artifacts are made in a scratch folder and
renamed when the stage has ended well, so that a half-written one is never taken for whole.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import shlex
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.lib.core import exits, process
from scripts.lib.supervision import journal, outcome
from scripts.lib.supervision.caplog import CappedLog
from scripts.lib.supervision.diagnose import Diagnosis, diagnose
from scripts.lib.supervision.outcome import Outcome, Usage

POLL_SECONDS = 0.1
SKIP_LIST = "skip-list"
"""Reason of a job that was not to be run: nothing blocked it."""
SHORT_OF = {
    "time-limit": "more_time",
    "memory-limit": "more_memory",
    "kernel-oom-kill": "more_memory",
    "estimated": "more_memory",
}
"""Reasons that a larger limit may do away with, and what says that one is to be had."""


@dataclass(frozen=True)
class Job:
    """One stage of one cell: what to run, what it makes, what it may use.

    `artifacts` are the paths as they stand in `command`; the child gets a scratch path in
    the place of each. `memory_mb` bounds the resident set of the whole process tree. `skip` says
    why the job is not to be run at all. `owner` is the process that must stay this one's parent
    (default: the one that is); without it, the job stops. `more_time` and `more_memory`: asked
    for again, it would have a larger limit.
    """

    stage: str
    cell: str
    status_path: Path
    log_path: Path
    command: Sequence[str]
    timeout_s: float
    memory_mb: float
    artifacts: Sequence[Path] = ()
    upstream: Sequence[Path] = ()
    skip: str = ""
    fingerprint: str = ""
    due: str = ""
    owner: int | None = None
    journal: Path | None = None
    more_time: bool = False
    more_memory: bool = False


class MoreNeeded(Exception):
    """A limit was met, and whoever asked for this job can ask again with a larger one: no outcome
    is recorded."""


class Interrupted(Exception):
    """Whoever asked for this job is gone, or told it to stop: no outcome is recorded."""


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
        for artifact in job.artifacts:
            _make_empty(artifact)
        with contextlib.closing(CappedLog(job.log_path)) as log:
            by = f"blocked by {blocked.blocked_by}" if blocked.blocked_by else blocked.reason
            log.note(f"# skipped: {by}: {blocked.detail}")
        outcome.write(job.status_path, blocked, Usage(0.0, 0.0))
        return blocked

    scratch = job.status_path.parent / ".scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    outcome.begin(job.status_path, job.due)
    started = time.time()
    fault = None
    try:
        with contextlib.closing(CappedLog(job.log_path)) as log:
            log.note(_header(job))
            try:
                ended = _supervise(job, owner, scratch, log)
            except _CannotStart as error:
                log.note(f"error: {error}")
                ended = _Ended(127, 0.0, 0.0)
            except Interrupted:
                raise
            except Exception as error:  # our own fault, not the stage's: a row all the same
                log.note(traceback.format_exc())
                fault = Diagnosis("error", "supervisor", f"{type(error).__name__}: {error}")
                ended = _Ended(os.EX_SOFTWARE, 0.0, 0.0)
        diagnosis = fault or _verdict(job, ended, scratch)
        if diagnosis and getattr(job, SHORT_OF.get(diagnosis.reason, ""), False):
            raise MoreNeeded(f"{job.stage} {job.cell}: {diagnosis.detail}; to be run with more")
        _place_artifacts(job, scratch, keep=diagnosis is None or ended.keeps_artifacts)
        result = _outcome(job, diagnosis)
        outcome.write(job.status_path, result, Usage(round(ended.seconds, 3), ended.max_rss_mb))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if job.journal is not None:
        journal.append(
            job.journal,
            {
                "stage": job.stage,
                "cell": job.cell,
                "status": result.status,
                "start": started,
                "end": time.time(),
                "child_seconds": ended.seconds,
            },
        )
    return result


@dataclass(frozen=True)
class _Ended:
    returncode: int
    seconds: float
    max_rss_mb: float
    stopped_for: str = ""
    peak_seen_mb: float = 0.0

    @property
    def keeps_artifacts(self) -> bool:
        return not self.stopped_for and self.returncode in exits.KEEPS_ARTIFACTS


class _CannotStart(Exception):
    """The command does not exist or may not be run."""


def _supervise(job: Job, owner: int, scratch: Path, log: CappedLog) -> _Ended:
    """Run the child under its limits; nothing of its tree is left, however this ends."""
    process.adopt_orphans()
    with _stop_requests() as stop_requested:
        start = time.monotonic()
        kernel_kills = process.kernel_oom_kills()
        child, read_end = _start(job, scratch)
        peak, stopped_for, ended = 0.0, "", None
        try:
            with _reader(read_end, child.pid) as ready:
                while ended is None:
                    _wait(ready, read_end, log)
                    ended = _reap(child, os.WNOHANG)
                    if ended is not None:
                        break
                    peak = max(peak, seen := process.tree_rss_mb())
                    if stop_requested() or os.getppid() != owner:
                        raise Interrupted(f"{job.stage} {job.cell}: stopped before it ended")
                    if time.monotonic() - start > job.timeout_s:
                        stopped_for = "timeout"
                    elif (
                        seen > job.memory_mb
                        and process.tree_rss_mb(shared_once=True) > job.memory_mb
                    ):
                        stopped_for = "oom"
                    if stopped_for:
                        process.kill_descendants(spare=child.pid)
                        ended = _reap(child, 0)
                seconds = time.monotonic() - start
                process.kill_descendants()
                _drain(read_end, log)
        finally:
            if ended is None:
                process.kill_descendants(spare=child.pid)
                _reap(child, 0)
                process.kill_descendants()
    returncode, usage = ended
    killed = not stopped_for and returncode == -signal.SIGKILL
    if killed and process.kernel_oom_kills() > kernel_kills:
        stopped_for = "kernel-oom"
    rss = round(max(peak, process.rss_mb(usage)), 1)
    return _Ended(returncode, seconds, rss, stopped_for, round(peak, 1))


def _start(job: Job, scratch: Path) -> tuple[subprocess.Popen, int]:
    """The child, its artifacts' paths replaced by scratch ones, and the pipe of its output."""
    aside = {str(path): str(scratch / path.name) for path in job.artifacts}
    if len(set(aside.values())) != len(aside):
        raise ValueError(f"{job.stage} {job.cell}: two artifacts have the same file name")
    read_end, write_end = os.pipe()
    try:
        child = subprocess.Popen(
            [aside.get(argument, argument) for argument in job.command],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            start_new_session=True,
            preexec_fn=process.child_setup(os.getpid()),
            env=os.environ
            | {"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
            | {exits.LIMIT_VARIABLE: f"{job.memory_mb:g}"},
        )
    except OSError as error:  # an environment that was moved away, say
        os.close(read_end)
        raise _CannotStart(str(error)) from error
    finally:
        os.close(write_end)
    return child, read_end


def _reap(child: subprocess.Popen, options: int) -> tuple[int, resource.struct_rusage] | None:
    """(exit code, usage) of the child; None where it still runs (os.WNOHANG)."""
    pid, status, usage = os.wait4(child.pid, options)
    if not pid:
        return None
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage


def _header(job: Job) -> str:
    return f"$ {shlex.join(job.command)}"


def _printed(job: Job) -> str:
    """What the stage printed, not what we wrote above it: a command may hold "error:"."""
    text = job.log_path.read_text(encoding="utf-8", errors="replace")
    return text.removeprefix(_header(job) + "\n")


def _last_words(job: Job) -> str:
    return next((line.strip() for line in reversed(_printed(job).splitlines()) if line.strip()), "")


def _verdict(job: Job, ended: _Ended, scratch: Path) -> Diagnosis | None:
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


@contextlib.contextmanager
def _stop_requests() -> Iterator:
    """Turn SIGTERM, SIGINT and SIGHUP into a flag for as long as the child runs."""
    asked: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {n: signal.signal(n, lambda number, _: asked.append(number)) for n in numbers}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _reader(read_end: int, pid: int) -> Iterator[selectors.BaseSelector]:
    """Wakes for output of the child, and for its end where the system can tell (Linux 5.3)."""
    os.set_blocking(read_end, False)
    with selectors.DefaultSelector() as ready, contextlib.ExitStack() as opened:
        opened.callback(os.close, read_end)
        ready.register(read_end, selectors.EVENT_READ)
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # built for it, but the kernel has none
                ended = os.pidfd_open(pid)
                opened.callback(os.close, ended)
                ready.register(ended, selectors.EVENT_READ)
        yield ready


def _wait(ready: selectors.BaseSelector, read_end: int, log: CappedLog) -> None:
    """Move output into the log until the child has ended or a poll interval is over."""
    deadline = time.monotonic() + POLL_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        events = ready.select(left)
        for key, _ in events:
            if key.fd != read_end:
                return
            if not _drain(read_end, log, limit=1):
                ready.unregister(read_end)


def _drain(read_end: int, log: CappedLog, limit: int = 1 << 16) -> bool:
    """Move what the pipe holds into the log, `limit` reads at most; False at its end."""
    for _ in range(limit):
        try:
            data = os.read(read_end, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        log.feed(data)
    return True


def _make_empty(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
