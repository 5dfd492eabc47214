"""Time the verified rows of a batch of operator problems on a device: those of a problem in turns."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from scripts.core import commands
from scripts.core.commands import option
from scripts.features.operators.batch import batch_stage, timing
from scripts.run import job_arguments
from scripts.supervise import group, supervise


@dataclass(frozen=True, kw_only=True)
class Options(batch_stage.Options):
    group: group.Given = option(type=group.of_text, help="JSON: members, anchor and rule")


def main() -> int:
    parser = job_arguments.parser("time_operators", __doc__)
    commands.add_options(parser, Options)
    args = parser.parse_args()
    job = job_arguments.job(args, parser, here=True)
    given = commands.options_of(Options, args)
    work = timing.work(given.group, given.batch(job))
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
