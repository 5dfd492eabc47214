"""Jobs of which a scheduler tells nothing are asked about again.

Snakemake's executors report a job as ended or yield it as active. In an outage, Slurm's (2.8) does
neither after a few attempts: the job is forgotten, and the run waits for ever. cluster-generic's (1.0)
ends the run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any


def keep_asking(executor: Any, warn: Callable[[str], None]) -> None:
    """Keep as active what `executor.check_active_jobs` neither reports nor yields.

    `executor` is a RemoteExecutor of snakemake-interface-executor-plugins, which looks its methods up
    in each round; `warn` is told of each round without an answer, and why where that is known.
    """
    check, ended = executor.check_active_jobs, set()

    def noting(report: Callable) -> Callable:
        def reported(job_info: Any, *args: Any, **kwargs: Any) -> None:
            ended.add(id(job_info))
            report(job_info, *args, **kwargs)

        return reported

    async def check_active_jobs(active: Sequence[Any]) -> AsyncIterator[Any]:
        ended.clear()
        known, reason = set(), ""
        try:
            async for job_info in check(active):
                known.add(id(job_info))
                yield job_info
        except Exception as error:  # whatever a scheduler's commands may do
            reason = f": {error}"
        silent = [job for job in active if id(job) not in known | ended]
        if silent:
            warn(f"nothing is known of {len(silent)} submitted job(s){reason}; asking again")
        for job_info in silent:
            yield job_info

    executor.report_job_success = noting(executor.report_job_success)
    executor.report_job_error = noting(executor.report_job_error)
    executor.check_active_jobs = check_active_jobs
