"""Run one stage on a batch of problems, each with an outcome of its own, in worker processes."""

from __future__ import annotations

import sys

from scripts.core import commands, requests
from scripts.features.operators.batch import batch_stage, timing
from scripts.run import job_arguments
from scripts.supervise import supervise

TIMING = "scripts.stages.time_operators"
"""The stage that the supervisor is itself: it starts the processes of the rows."""


def main() -> int:
    parser = job_arguments.parser("supervise_batch", __doc__)
    commands.add_options(parser, batch_stage.Options)
    args = parser.parse_args()
    job = job_arguments.job(args)
    batch = commands.options_of(batch_stage.Options, args).batch(job)
    work = batch_stage.work(batch, batch_stage.in_workers)
    if job.request and job.request.module == TIMING:
        request = requests.decode(timing.OperatorTimingRequest, job.request.fields)
        work = timing.work(request.group, batch)
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
