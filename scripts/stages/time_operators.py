"""Time the verified rows of a batch of operator problems on a device: those of a problem in turns."""

from __future__ import annotations

import sys

from scripts.features.operators.batch import batch_stage, timing
from scripts.run import job_arguments
from scripts.supervise import group, supervise


def main() -> int:
    parser = job_arguments.parser("time_operators", __doc__)
    batch_stage.add_arguments(parser)
    parser.add_argument(
        "--group", required=True, type=group.of_text, help="JSON: members, anchor and rule"
    )
    args = parser.parse_args()
    job = job_arguments.job(args, parser, here=True)
    work = timing.work(args.group, batch_stage.of_arguments(args, job))
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
