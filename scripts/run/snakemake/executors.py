"""The executors of clusters: they note the jobs that they submit, and go on while the scheduler does not answer.

Executors report a job as ended or yield it as active. If the scheduler does not answer, the one for
Slurm (2.8) does neither after a few attempts: the job is forgotten, and the run waits forever. The one
for cluster-generic (1.0) ends the run. A refused submission counts as an attempt of its job. Without a
pause between attempts, all of them are used up within seconds.

No other run may begin beside jobs of a killed run that are still on the cluster. So a run records the id of each job that it submits,
and the next run asks which of them still exist. (Snakemake 9.27 records ids too, but the Snakemake on the node replaces the record by
its own, which has none.)
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

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
    """Raise StillRunning if jobs of an earlier run still exist, or if the executor plugin of this name cannot tell."""
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


REFUSED_PAUSE_S = 60.0
"""Seconds until a job that the scheduler has refused may be submitted again."""


class Submitting(RemoteExecutor):
    """Notes the jobs that it submits, and keeps jobs active that a plugin's `check_active_jobs` neither reports nor
    yields. A refused submission counts only after REFUSED_PAUSE_S.

    Each refusal, and each check without an answer, gives a warning with the reason if it is known.
    """

    notes: Notes

    def __init__(self, workflow: Any, logger: Any) -> None:
        self._reported: set[int] = set()  # before the constructor, which starts to ask
        super().__init__(workflow, logger)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.notes.name = getattr(self, "run_uuid", None)  # Slurm's name for all jobs of a run

    @property
    def cores(self) -> str:
        """The Snakemake on a node uses the cores of that node, and not as many as this machine has."""
        return "all"

    def run_jobs(self, jobs: list[Any]) -> None:
        self.notes.given(jobs)
        super().run_jobs(jobs)

    def report_job_submission(self, job_info: SubmittedJobInfo, register_job: bool = True) -> None:
        self.notes.add(job_info.external_jobid)
        super().report_job_submission(job_info, register_job=register_job)

    def report_job_success(self, job_info: SubmittedJobInfo) -> None:
        self._reported.add(id(job_info))
        super().report_job_success(job_info)
        self.notes.over(job_info.job)

    def report_job_error(
        self, job_info: SubmittedJobInfo, msg: str | None = None, **kwargs: Any
    ) -> None:
        self._reported.add(id(job_info))
        report = super().report_job_error

        def count() -> None:
            report(job_info, msg=msg, **kwargs)
            self.notes.over(job_info.job)

        if job_info.external_jobid is not None:
            count()
            return
        self.logger.warning(
            f"a submission was refused; this counts as an attempt in {REFUSED_PAUSE_S:g} s: {msg}"
        )
        pause = threading.Timer(REFUSED_PAUSE_S, count)
        pause.daemon = True
        pause.start()

    async def check_active_jobs(
        self, active_jobs: Sequence[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        self._reported.clear()
        known, reason = set(), ""
        try:
            async for job_info in super().check_active_jobs(active_jobs):
                known.add(id(job_info))
                yield job_info
        except Exception as error:  # whatever a scheduler's commands may do
            reason = f": {error}"
        silent = [job for job in active_jobs if id(job) not in known | self._reported]
        if silent:
            self.logger.warning(
                f"the scheduler did not report {len(silent)} submitted job(s){reason}; asking again"
            )
        for job_info in silent:
            yield job_info


def subclass(notes: Notes) -> None:
    """Put a subclass that notes its jobs in the place of every cluster's executor.

    Submitting overrides documented methods of RemoteExecutor. One undocumented assignment puts the subclass in the
    place of the plugin's class: Snakemake takes it from the registry of plugins after it has read the Snakefile.
    """
    registry = ExecutorPluginRegistry()
    for name in registry.get_registered_plugins():
        plugin = registry.get_plugin(name)
        # If a Snakefile is read twice in one process, the plugin's own class is the base again.
        original = getattr(plugin.executor, "subclassed", plugin.executor)
        if issubclass(original, RemoteExecutor):
            members = {"subclassed": original, "__module__": original.__module__, "notes": notes}
            plugin.executor = type(original.__name__, (Submitting, original), members)
