"""Outages of a cluster's scheduler, which Snakemake's executors do not handle themselves.

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

from scripts.snakemake.executors import SUBCLASSED
from scripts.snakemake.patch import Patch, needs

REFUSED_PAUSE_S = 60.0
"""Seconds until a job that the scheduler has refused may be submitted again."""

WATCHING = Patch(
    name="outages of a scheduler",
    replaces="executors of clusters: `check_active_jobs`, `report_job_success`, `report_job_error`",
    without="where the scheduler does not answer, the run waits forever or ends early",
    runs="cluster",
    safe=True,
    needs=(
        *SUBCLASSED,
        *needs(
            "snakemake_interface_executor_plugins.executors.remote:RemoteExecutor",
            check_active_jobs="(self, active_jobs)",
            report_job_success="(self, job_info)",
            report_job_error="(self, job_info, msg=None, **kwargs)",
        ),
    ),
)


class Watching(RemoteExecutor):
    """Keeps jobs active that a plugin's `check_active_jobs` neither reports nor yields, and counts a
    refused submission only after REFUSED_PAUSE_S.

    Each refusal, and each check without an answer, gives a warning with the reason if it is known.
    """

    def __init__(self, workflow: Any, logger: Any) -> None:
        self._reported: set[int] = set()  # before the constructor, which starts to ask
        super().__init__(workflow, logger)

    def report_job_success(self, job_info: SubmittedJobInfo) -> None:
        self._reported.add(id(job_info))
        super().report_job_success(job_info)

    def report_job_error(
        self, job_info: SubmittedJobInfo, msg: str | None = None, **kwargs: Any
    ) -> None:
        self._reported.add(id(job_info))
        count = super().report_job_error
        if job_info.external_jobid is not None:
            count(job_info, msg=msg, **kwargs)
            return
        self.logger.warning(
            f"a submission was refused; this counts as an attempt in {REFUSED_PAUSE_S:g} s: {msg}"
        )
        pause = threading.Timer(REFUSED_PAUSE_S, count, (job_info,), {"msg": msg} | kwargs)
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
