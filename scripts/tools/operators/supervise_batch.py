"""Run one stage on a batch of problems, each with an outcome of its own. Worker processes handle them, but this process itself starts
the programs that take turns."""

from __future__ import annotations

import sys

from scripts.core import commands, requests
from scripts.run import job_arguments
from scripts.supervise import supervise
from scripts.tools.operators.batch import batch_stage, timing
from scripts.tools.operators.batch.timing import OperatorTimingRequest


def main() -> int:
    parser = job_arguments.parser("scripts.tools.operators.supervise_batch", __doc__)
    commands.add_options(parser, batch_stage.Options)
    args = parser.parse_args()
    job = job_arguments.job(args)
    batch = commands.options_of(batch_stage.Options, args).batch(job)
    assert job.request is not None
    if job.request.module == "scripts.tools.operators.time_operators":
        work = timing.work(requests.decode(OperatorTimingRequest, job.request.fields).group, batch)
    else:
        work = batch_stage.work(batch)
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
