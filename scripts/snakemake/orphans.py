"""Jobs of a killed run that are still on the cluster: they must not write while the next run does.

A run records the id of each job that it submits, and the next run checks which of them still exist.
Snakemake 9.27 records ids too, but loses an id when the job begins: the Snakemake on the node replaces
the record by its own, which has no id. So it would submit a job again while the job is running.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from scripts.snakemake.executors import SUBCLASSED
from scripts.snakemake.patch import Patch, needs

NOTES = Path("results/logs/submitted.txt")
_SUBMIT = Path(__file__).with_name("submit_noted.py")
POLL_SECONDS = 1.0
PATIENCE_SECONDS = 300.0


ORPHANS = Patch(
    name="jobs of a killed run",
    replaces="executors of clusters: `run_jobs`, `report_job_submission`, `report_job_success`, "
    "`report_job_error`; `submit_cmd` of cluster-generic's settings",
    without="a job that a killed run has left in the queue and the job submitted in its place "
    "write the same files",
    runs="cluster",
    safe=False,
    needs=(
        *SUBCLASSED,
        *needs(
            "snakemake_interface_executor_plugins.executors.remote:RemoteExecutor",
            __post_init__="(self)",
            run_jobs="(self, jobs)",
            report_job_submission="(self, job_info, register_job=True)",
            report_job_success="(self, job_info)",
            report_job_error="(self, job_info, msg=None, **kwargs)",
        ),
    ),
)


class StillRunning(RuntimeError):
    """Jobs of an earlier run did not end, or it cannot be found out whether they have."""


class Notes:
    """The ids of the jobs that this run submits, in a file for the next run.

    `name` is the name that the executor gives to all jobs of this run, if it does. By this name the
    next run finds a job that was being submitted when Snakemake was killed.
    """

    def __init__(self, path: Path = NOTES) -> None:
        self.name: str | None = None
        self.path = path
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
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("", encoding="utf-8")
        # Append, because submissions also write the ids of their jobs to it.
        self._file = self.path.open("a", encoding="utf-8")
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
            self.path.unlink(missing_ok=True)


class Noting(RemoteExecutor):
    """An executor that records the jobs that it submits."""

    notes: Notes

    def __post_init__(self) -> None:
        super().__post_init__()
        self.notes.name = getattr(self, "run_uuid", None)  # Slurm's name for all jobs of a run
        settings = self.workflow.executor_settings
        if command := getattr(settings, "submit_cmd", None):  # cluster-generic
            settings.submit_cmd = noted(command, self.notes.path)

    def run_jobs(self, jobs: list[Any]) -> None:
        self.notes.given(jobs)
        super().run_jobs(jobs)

    def report_job_submission(self, job_info: SubmittedJobInfo, register_job: bool = True) -> None:
        self.notes.add(job_info.external_jobid)
        super().report_job_submission(job_info, register_job=register_job)

    def report_job_success(self, job_info: SubmittedJobInfo) -> None:
        super().report_job_success(job_info)
        self.notes.over(job_info.job)

    def report_job_error(
        self, job_info: SubmittedJobInfo, msg: str | None = None, **kwargs: Any
    ) -> None:
        super().report_job_error(job_info, msg=msg, **kwargs)
        self.notes.over(job_info.job)


def noted(command: str, notes: Path) -> str:
    """Return a submit command for the shell that notes the id of the job (submit_noted.py)."""
    return shlex.join([sys.executable, "-I", "-S", str(_SUBMIT), str(notes.absolute()), command])


def refuse(notes: Path = NOTES) -> None:
    """Raise StillRunning if jobs may be left. For runs that do not use the cluster's queue."""
    if notes.is_file():
        raise StillRunning(
            "an interrupted run has submitted jobs, and some may still be writing results: give its "
            f"command again, which cancels them, or make sure that none is left and remove {notes}"
        )


def stop(executor: str, settings: Any, notes: Path = NOTES) -> list[str]:
    """Cancel the jobs that an earlier run has left, wait for their end, and return their ids.

    `executor` is the name of the executor plugin, `settings` are its settings. Raises StillRunning if
    jobs do not end, or if the executor cannot tell.
    """
    left = _left(notes)
    if not left:
        return []
    alive, cancel = _queue(executor, settings, left)
    running = sorted(alive(left))
    if not running:
        return []
    print(
        f"cancelling {len(running)} job(s) that an earlier run has left: {', '.join(running)}",
        file=sys.stderr,
        flush=True,
    )
    cancel(running)
    deadline = time.monotonic() + PATIENCE_SECONDS
    alive_still = running
    while alive_still := sorted(alive(alive_still)):
        if time.monotonic() > deadline:
            raise StillRunning(f"cancelled, and still in the queue: {', '.join(alive_still)}")
        time.sleep(POLL_SECONDS)
    return running


def _left(notes: Path) -> set[str]:
    """Return the noted jobs, after all submissions of the earlier run have ended."""
    if not notes.is_file():
        return set()
    with notes.open("r+", encoding="utf-8") as file:  # on NFS, an exclusive lock needs write access
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _locked(file):
            if time.monotonic() > deadline:
                raise StillRunning(
                    "an earlier run is still submitting a job: see that its submit command ends"
                )
            time.sleep(POLL_SECONDS)
        return set(file.read().split())


def _locked(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _queue(executor: str, settings: Any, left: set[str]) -> tuple[Callable, Callable]:
    """Two functions of an executor: (which of these ids still exist, cancel these ids)."""
    if executor.endswith("slurm"):
        return _alive_in_slurm, lambda ids: _run(["scancel", *ids])
    status, cancel = (getattr(settings, f"{kind}_cmd", None) for kind in ("status", "cancel"))
    if status and cancel:
        return (
            lambda ids: {i for i in ids if _run(f"{status} {shlex.quote(i)}").strip() == "running"},
            lambda ids: _run([*shlex.split(cancel), *ids]),
        )
    raise StillRunning(
        f"an earlier run may have left jobs ({', '.join(sorted(left))}), and the executor "
        f"{executor} has no commands for their status and to cancel them: make sure that they "
        f"have ended, then remove {NOTES}"
    )


def _alive_in_slurm(ids: Iterable[str]) -> set[str]:
    """Numbers of the jobs whose number, array task or name is among `ids`."""
    listed = _run(["squeue", "--noheader", "--format=%A %i %j", f"--user={os.getuid()}"])
    rows = (line.split(maxsplit=2) for line in listed.splitlines())
    return {row[0] for row in rows if set(ids) & set(row)}


def _run(command: list[str] | str) -> str:
    """The output of a command. Raises StillRunning with its message if it fails."""
    ended = subprocess.run(
        command, shell=isinstance(command, str), capture_output=True, text=True, check=False
    )
    if ended.returncode:
        said = ended.stderr.strip() or ended.stdout.strip()
        raise StillRunning(f"{command}: exit code {ended.returncode}: {said}")
    return ended.stdout
