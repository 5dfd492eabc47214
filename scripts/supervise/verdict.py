"""The diagnosis and the outcome of a stage whose process has ended."""

from __future__ import annotations

import os
import shlex
from itertools import pairwise
from pathlib import Path

from scripts.core import checkout
from scripts.supervise import outcome
from scripts.supervise.diagnose import Diagnosis, diagnose
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome
from scripts.supervise.watch import Ended

FULL_BYTES = 1 << 20
"""A file system with less free space counts as full, and as the cause of any failure."""
MODEL_FILE = "--model-file"
"""The option of every stage that loads a model (torch_model/arguments.py)."""


def header(job: Job) -> str:
    """The line above the output of a stage in its log."""
    return f"$ {shown(job)}"


def shown(job: Job) -> str:
    """The command of a job, as it can be run in the working folder."""
    prefix = checkout.prefix() if job.command[1:2] == ["-m"] else []
    return shlex.join([*prefix, *job.command])


def of(job: Job, ended: Ended, scratch: Path) -> Diagnosis | None:
    """The diagnosis of a failure, or None if the job succeeded: from its end, the output in its log, and its artifacts
    in `scratch`."""
    match ended.stopped_for:
        case "timeout":
            said = f"; last said: {ended.said}" if ended.said else ""
            detail = f"still running after {job.timeout_s:g} s{said}"
            return Diagnosis("timeout", "time-limit", detail)
        case "cpu-time":
            detail = f"still running after {job.cpu_s:g} s of CPU time"
            return Diagnosis("timeout", "cpu-limit", detail)
        case "oom":
            detail = f"process tree held {ended.peak_seen_mb:.0f} MiB; the limit is {job.memory_mb:.0f} MiB"
            return Diagnosis("oom", "memory-limit", detail)
        case "kernel-oom":
            detail = (
                f"the kernel killed it for memory; at most {ended.max_rss_mb:.0f} MiB were seen"
            )
            return Diagnosis("oom", "kernel-oom-kill", detail)
    if ended.returncode != 0:
        # The command in the header may contain "error:".
        text = job.log_path.read_text(encoding="utf-8", errors="replace")
        printed = text.removeprefix(header(job) + "\n")
        model_file = dict(pairwise(job.command)).get(MODEL_FILE, "")
        return _with_full_disk(diagnose(ended.returncode, printed, model_file), scratch)
    for artifact in job.artifacts:
        made = scratch / artifact.name
        if not made.is_file() or made.stat().st_size == 0:
            return Diagnosis(
                "error", "no-artifact", f"the stage exited 0 but wrote no {artifact.name}"
            )
    return None


def record(job: Job, found: Diagnosis | None, blocked_by: str = "") -> Outcome:
    """The outcome of a job; it is ok if there is no diagnosis."""
    found = found or Diagnosis(outcome.OK, "", "")
    return Outcome(
        status=found.status,
        stage=job.stage,
        cell=job.cell,
        reason=found.reason,
        detail=found.detail,
        blocked_by=blocked_by,
        log=str(job.log_path),
        command=shown(job),
        fingerprint=job.fingerprint,
        due=job.due,
        limit={"timeout": job.timeout_s, "oom": job.memory_mb}.get(found.status),
    )


def _with_full_disk(found: Diagnosis, scratch: Path) -> Diagnosis:
    """The diagnosis, or `disk-full` if the disk is full: not every tool reports that, and the log may have lost it."""
    disk = os.statvfs(scratch.parent)
    if found.status not in ("error", "crashed") or found.reason == outcome.DISK_FULL:
        return found
    if disk.f_bavail * disk.f_frsize >= FULL_BYTES:
        return found
    detail = f"no space left on the file system of {scratch.parent}: {found.detail}"
    return Diagnosis("error", outcome.DISK_FULL, detail)
