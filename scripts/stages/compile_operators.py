"""Compile the programs of a batch of operator problems together, each with an outcome of its own.

The command after -- is the Python of the environment that has iree-compile.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path

from scripts.features.operators import arguments as batch_arguments
from scripts.features.operators.batch import compiling, stage
from scripts.iree import backends, tools
from scripts.run import job_arguments
from scripts.supervise import supervise


def main() -> int:
    parser = job_arguments.parser("compile_operators", __doc__)
    batch_arguments.add_arguments(parser)
    backends.add_target_arguments(parser)
    args = parser.parse_args()
    job = job_arguments.job(args, parser)
    python = job.command[0]
    environment = Path(shutil.which(python) or python).parent.parent
    # If the environment could not be made, there is no compiler, and the supervisor skips the batch.
    compiler = tools.program("iree-compile", environment) or environment / "bin/iree-compile"
    flags = backends.compile_flags(args.backend, args.arch, args.opt_level, args.flags)
    job = dataclasses.replace(job, command=[str(compiler), *flags])
    do = compiling.in_modules(tools.version(compiler))
    work = stage.work(batch_arguments.batch(args, job), do)
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
