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
    """Return the line above the output of a stage in its log."""
    return f"$ {shown(job)}"


def shown(job: Job) -> str:
    """Return the command of a job, as it can be run in the working folder."""
    prefix = checkout.prefix() if job.command[1:2] == ["-m"] else []
    return shlex.join([*prefix, *job.command])


def of(job: Job, ended: Ended, scratch: Path) -> Diagnosis | None:
    """Return the diagnosis of a failure, or None if the job succeeded.

    Reads the output of the process from the log of the job, and looks for its artifacts in
    `scratch`.
    """
    if ended.stopped_for == "timeout":
        detail = f"still running after {job.timeout_s:g} s" + (
            f"; last said: {ended.said}" if ended.said else ""
        )
        return Diagnosis("timeout", "time-limit", detail)
    if ended.stopped_for == "cpu-time":
        return Diagnosis("timeout", "cpu-limit", f"still running after {job.cpu_s:g} s of CPU time")
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
        return _with_full_disk(diagnose(ended.returncode, _printed(job), _model_file(job)), scratch)
    for artifact in job.artifacts:
        made = scratch / artifact.name
        if not made.is_file() or made.stat().st_size == 0:
            return Diagnosis(
                "error", "no-artifact", f"the stage exited 0 but wrote no {artifact.name}"
            )
    return None


def record(job: Job, diagnosis: Diagnosis | None) -> Outcome:
    """Return the outcome of a job; it is ok if there is no diagnosis."""
    return Outcome(
        status=diagnosis.status if diagnosis else outcome.OK,
        stage=job.stage,
        cell=job.cell,
        reason=diagnosis.reason if diagnosis else "",
        detail=diagnosis.detail if diagnosis else "",
        log=str(job.log_path),
        command=shown(job),
        fingerprint=job.fingerprint,
        due=job.due,
        limit={"timeout": job.timeout_s, "oom": job.memory_mb}.get(diagnosis.status)
        if diagnosis
        else None,
    )


def _printed(job: Job) -> str:
    """Return the output of the stage without the header of the log.

    The command in the header may contain "error:".
    """
    text = job.log_path.read_text(encoding="utf-8", errors="replace")
    return text.removeprefix(header(job) + "\n")


def _model_file(job: Job) -> str:
    """Return the model file that a stage loads, or "" if it loads none."""
    words = dict(pairwise(job.command))
    return words.get(MODEL_FILE, "")


def _with_full_disk(found: Diagnosis, scratch: Path) -> Diagnosis:
    """Return the diagnosis, or `disk-full` if the disk is full.

    Not every tool reports a full disk, and the log may have lost the message.
    """
    disk = os.statvfs(scratch.parent)
    if found.status not in ("error", "crashed") or found.reason == outcome.DISK_FULL:
        return found
    if disk.f_bavail * disk.f_frsize >= FULL_BYTES:
        return found
    detail = f"no space left on the file system of {scratch.parent}: {found.detail}"
    return Diagnosis("error", outcome.DISK_FULL, detail)
