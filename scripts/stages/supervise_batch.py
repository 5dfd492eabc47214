"""Run one stage on a batch of problems, each with an outcome of its own, in worker processes."""

from __future__ import annotations

import sys

from scripts.core import commands
from scripts.features.operators.batch import batch_stage
from scripts.run import job_arguments
from scripts.supervise import supervise


def main() -> int:
    parser = job_arguments.parser("supervise_batch", __doc__)
    commands.add_options(parser, batch_stage.Options)
    args = parser.parse_args()
    job = job_arguments.job(args, parser)
    batch = commands.options_of(batch_stage.Options, args).batch(job)
    work = batch_stage.work(batch, batch_stage.in_workers)
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
