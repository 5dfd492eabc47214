"""Run one stage of one cell under the supervisor: limits, log, status.json, artifacts."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.core import requests
from scripts.run import job_arguments
from scripts.supervise import supervise

TIMING = "scripts.stages.time_group"
"""The stage that the supervisor is itself: it starts the members."""


def main() -> int:
    parser = job_arguments.parser("scripts.stages.supervise", __doc__)
    parser.add_argument(
        "--asked", type=Path, help="status.json of a failure that the --remedies are to make good"
    )
    parser.add_argument("--remedies", default="[]", help="JSON list of attempts, in order")
    parser.add_argument("--pins", default="", help="with --remedies: names the environment")
    args = parser.parse_args()
    job = job_arguments.job(args)
    if args.asked:
        # They have packages that other jobs do not need.
        import msgspec

        from scripts.config.compile_tables import Attempt
        from scripts.tools.variants import remedy_job

        attempts = msgspec.json.decode(args.remedies, type=list[Attempt])
        return job_arguments.run(job, lambda: remedy_job.run(job, args.asked, attempts, args.pins))
    work = None
    if args.run == TIMING and job.request:
        # It has packages that other jobs do not need.
        from scripts.supervise import group

        work = group.work(requests.decode(group.GroupRequest, job.request.fields))
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
