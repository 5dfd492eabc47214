"""Find the fastest way to compile a model for a target, by compiling, verifying and timing many candidates.

The request of the job verifies the first artifact; it is made for each candidate, with the candidate's
module. The candidates are compiled with the same Python.
"""

from __future__ import annotations

import sys

import msgspec

from scripts.run import job_arguments, resources
from scripts.supervise import supervise
from scripts.tools.variants import tune_work
from scripts.tools.variants.candidates import Search


def main() -> int:
    parser = job_arguments.parser("scripts.tools.variants.tune_iree", __doc__)
    parser.add_argument("--search", required=True, help="JSON: candidates, budget, conditions")
    parser.add_argument("--cores", default=1, type=int, help="for compilations beside each other")
    args = parser.parse_args()
    job = job_arguments.job(args)
    search = msgspec.json.decode(args.search, type=Search)
    work = tune_work.work(search, at_once=resources.slots(args.cores))
    return job_arguments.run(job, lambda: supervise.run(job, work))


if __name__ == "__main__":
    sys.exit(main())
