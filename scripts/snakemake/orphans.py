"""Jobs of a killed run that are still on the cluster: no other run may begin beside them.

A run records the id of each job that it submits, and the next run asks which of them still exist.
Snakemake 9.27 records ids too, but loses an id when the job begins: the Snakemake on the node replaces
the record by its own, which has no id. So it would submit a job again while the job is running.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

NOTES = Path("results/logs/submitted.txt")


class StillRunning(RuntimeError):
    """Jobs of an earlier run have not ended, or it cannot be found out whether they have."""


class Notes:
    """The ids of the jobs that this run submits, in the file NOTES for the next run.

    `name` is the name that the executor gives to all jobs of this run, if it does. By this name the
    next run finds a job that was being submitted when Snakemake was killed.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self._file: TextIO | None = None
        self._known: set[str] = set()
        self._under_way: set[Any] = set()
        self._lock = threading.Lock()  # Slurm's executor submits from two threads

    def problem(self, executor: str) -> str:
        """Why a job whose submission was interrupted could not be found again; "" if it could."""
        if not executor.endswith("slurm") or self.name:
            return ""
        return (
            f"the executor {executor} gives its runs no name (run_uuid), and without it a job that is "
            "being submitted when Snakemake is killed cannot be found by the next run: install the "
            "versions of requirements-cluster.txt"
        )

    def begin(self) -> None:
        """Start a new file, with the run's name if it has one."""
        NOTES.parent.mkdir(parents=True, exist_ok=True)
        self._file = NOTES.open("w", encoding="utf-8")
        self.add(self.name)

    def add(self, jobid: str | None) -> None:
        """Record the id of a submission, or a name, once."""
        with self._lock:
            if self._file is None or jobid is None or jobid in self._known:
                return
            self._known.add(jobid)
            self._file.write(f"{jobid}\n")
            self._file.flush()

    def given(self, jobs: Iterable[Any]) -> None:
        """Record jobs that will be submitted. They count as under way until they are over."""
        with self._lock:
            self._under_way.update(jobs)

    def over(self, job: Any) -> None:
        """Record that a job has ended."""
        with self._lock:
            self._under_way.discard(job)

    def end(self) -> None:
        """Delete the file if every job has ended; otherwise leave it to the next run."""
        if self._file is not None and not self._under_way:
            NOTES.unlink(missing_ok=True)


def refuse() -> None:
    """Raise StillRunning if jobs may be left. For runs that do not use the cluster's queue."""
    if NOTES.is_file():
        raise StillRunning(
            "an interrupted run has submitted jobs, and some may still be writing results: give its "
            f"command again, which names them, or make sure that none is left and remove {NOTES}"
        )


def refuse_beside(executor: str, settings: Any) -> None:
    """Raise StillRunning if jobs of an earlier run still exist, or if the executor cannot tell.

    `executor` is the name of the executor plugin, `settings` are its settings.
    """
    left = set(NOTES.read_text(encoding="utf-8").split()) if NOTES.is_file() else set()
    if not left:
        return
    status, cancel = (getattr(settings, f"{kind}_cmd", None) for kind in ("status", "cancel"))
    if executor.endswith("slurm"):
        cancel, alive = "scancel", _alive_in_slurm(left)
    elif status:
        alive = {i for i in left if _said(f"{status} {shlex.quote(i)}").strip() == "running"}
    else:
        raise StillRunning(
            f"an earlier run may have left jobs ({', '.join(sorted(left))}), and the executor "
            f"{executor} has no command for their status: make sure that they have ended, then remove {NOTES}"
        )
    if alive:
        ids = " ".join(sorted(alive))
        raise StillRunning(
            f"an earlier run has left {len(alive)} job(s) that still run or wait, and the jobs of this run would "
            "write the same files. Cancel them, wait until they have ended, then give the command again:\n"
            f"  {cancel or 'the command that cancels jobs, for'} {ids}"
        )


def _alive_in_slurm(ids: set[str]) -> set[str]:
    """Numbers of the jobs whose number, array task or name is among `ids`."""
    command = ["squeue", "--noheader", "--format=%A %i %j", f"--user={os.getuid()}"]
    listed = _said(command)
    rows = (line.split(maxsplit=2) for line in listed.splitlines())
    return {row[0] for row in rows if ids & set(row)}


def _said(command: str | list[str]) -> str:
    """The output of a command. Raises StillRunning with its message if it fails. A string is a line for a shell: the
    user's own command, as Snakemake runs it."""
    shown, is_line = (command, True) if isinstance(command, str) else (shlex.join(command), False)
    try:
        ended = subprocess.run(command, shell=is_line, capture_output=True, text=True, check=False)
    except OSError as error:
        raise StillRunning(f"{shown}: {error.strerror}") from error
    if ended.returncode:
        said = ended.stderr.strip() or ended.stdout.strip()
        raise StillRunning(f"{shown}: exit code {ended.returncode}: {said}")
    return ended.stdout
