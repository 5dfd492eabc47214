"""An outage of a cluster's scheduler: what Snakemake's executors do not bear by themselves.

They report a job as ended or yield it as active. Where no answer comes, Slurm's (2.8) does neither
after a few attempts: the job is forgotten, and the run waits for ever. cluster-generic's (1.0) ends
the run. And a submission that is refused is an attempt of its job: with no pause between them, all
are over within seconds.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

REFUSED_PAUSE_S = 60.0
"""Until a job that the scheduler has refused may be submitted again."""


def keep_asking(executor: Any, warn: Callable[[str], None]) -> None:
    """Keep as active what `executor.check_active_jobs` neither reports nor yields, and let a refused
    submission count after REFUSED_PAUSE_S only.

    `executor` is a RemoteExecutor of snakemake-interface-executor-plugins, which looks its methods up
    in each round; `warn` is told of each refusal and each round without an answer, and why where that is known.
    """
    check, ended = executor.check_active_jobs, set()
    succeed, fail = executor.report_job_success, executor.report_job_error

    def report_job_success(job_info: Any, *args: Any, **kwargs: Any) -> None:
        ended.add(id(job_info))
        succeed(job_info, *args, **kwargs)

    def report_job_error(job_info: Any, msg: str | None = None, **kwargs: Any) -> None:
        ended.add(id(job_info))
        if job_info.external_jobid is not None:
            fail(job_info, msg=msg, **kwargs)
            return
        warn(f"a submission was refused, {REFUSED_PAUSE_S:g} s until that counts: {msg}")
        pause = threading.Timer(REFUSED_PAUSE_S, fail, (job_info,), {"msg": msg} | kwargs)
        pause.daemon = True
        pause.start()

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

    executor.report_job_success = report_job_success
    executor.report_job_error = report_job_error
    executor.check_active_jobs = check_active_jobs
