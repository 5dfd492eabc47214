"""The executors of clusters: they note the jobs that they submit, and go on while the scheduler does not answer.

Executors report a job as ended or yield it as active. If the scheduler does not answer, the one for
Slurm (2.8) does neither after a few attempts: the job is forgotten, and the run waits forever. The one
for cluster-generic (1.0) ends the run. A refused submission counts as an attempt of its job. Without a
pause between attempts, all of them are used up within seconds.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from scripts.snakemake.orphans import Notes

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
