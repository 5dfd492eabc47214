"""Run one stage on a batch of problems, each with an outcome of its own. Worker processes handle them, but this process itself starts
the compilers, and the programs that take turns."""

from __future__ import annotations

import sys

from scripts.core import commands, requests
from scripts.run import job_arguments
from scripts.supervise import supervise
from scripts.tools.operators.batch import batch_stage, timing, together
from scripts.tools.operators.batch.timing import OperatorTimingRequest
from scripts.tools.operators.batch.together import OperatorCompileRequest


def main() -> int:
    parser = job_arguments.parser("scripts.tools.operators.supervise_batch", __doc__)
    commands.add_options(parser, batch_stage.Options)
    args = parser.parse_args()
    job = job_arguments.job(args)
    batch = commands.options_of(batch_stage.Options, args).batch(job)
    assert job.request is not None
    fields = job.request.fields
    match job.request.module:
        case "scripts.tools.operators.compile_operators":
            work = together.work(requests.decode(OperatorCompileRequest, fields), batch)
        case "scripts.tools.operators.time_operators":
            work = timing.work(requests.decode(OperatorTimingRequest, fields).group, batch)
        case _:
            work = batch_stage.work(batch, batch_stage.in_workers)
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
