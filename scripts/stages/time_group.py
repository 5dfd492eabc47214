"""Time the verified rows of a group in turns: of one model, device, number of threads and test."""

from __future__ import annotations

import sys

from scripts.run import job_arguments
from scripts.supervise import group, supervise


def main() -> int:
    parser = job_arguments.parser("time_group", __doc__)
    parser.add_argument(
        "--group", required=True, type=group.of_text, help="JSON: members, anchor, bases and rule"
    )
    args = parser.parse_args()
    job = job_arguments.job(args, parser, here=True)
    return job_arguments.run(job, lambda: supervise.run(job, group.work(args.group)))


if __name__ == "__main__":
    sys.exit(main())
