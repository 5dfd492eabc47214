"""Run one stage on a batch of problems, each with an outcome of its own, in worker processes."""

from __future__ import annotations

import sys

from scripts.features.operators.batch import stage
from scripts.run import job_arguments
from scripts.supervise import supervise


def main() -> int:
    parser = job_arguments.parser("supervise_batch", __doc__)
    stage.add_arguments(parser)
    args = parser.parse_args()
    job = job_arguments.job(args, parser)
    work = stage.work(stage.of_arguments(args, job), stage.in_workers)
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
