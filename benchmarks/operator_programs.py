"""Lower a random sample of BackendBench's problems, one file each, for benchmarks.batch_throughput.

Writes `<problem>.mlir` and `sample.json`: for each problem its number of elements, the seconds that
it took, and its outcome, because some problems are not lowered. Run it with the driver's Python.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.supervise.job import Job
from scripts.supervise.outcome import ProblemEnd
from scripts.tools.operators.batch.batch_stage import Host
from scripts.tools.operators.problems import sources
from scripts.tools.operators.problems.problem import Problem, Selection, select

DIALECTS = ("torch", "stablehlo", "linalg-on-tensors")


def main() -> None:
    args = _arguments()
    problems = select(
        sources.read_dataset(args.dataset)[0], Selection(max_elements=args.max_elements)
    )
    sample = random.Random(args.seed).sample(problems, min(args.count, len(problems)))
    print(f"{len(sample)} of {len(problems)} problems, {len({p.op for p in sample})} operators")
    args.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    found = _lowered(sample, args)
    statuses = Counter(one.outcome.status for one in found)
    print(f"{dict(statuses)} in {time.monotonic() - start:.0f} s")
    by_name = {problem.name: problem for problem in sample}
    listed = {
        one.problem: {
            "elements": by_name[one.problem].elements,
            "seconds": one.seconds,
            "status": one.outcome.status,
            "reason": one.outcome.reason,
            "detail": one.outcome.detail,
        }
        for one in found
    }
    atomic.write_json(args.out / "sample.json", listed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operator_programs", description=__doc__
    )
    parser.add_argument("--dataset", required=True, type=Path, help="the parquet file")
    parser.add_argument("--out", required=True, type=Path, help="folder")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-elements", type=int, help="of all tensor arguments of a problem")
    parser.add_argument("--dialect", default="linalg-on-tensors", choices=DIALECTS)
    parser.add_argument("--env", type=Path, default=Path(".venvs/torch-mlir"), help="with torch-mlir")  # fmt: skip
    return parser.parse_args()


def _lowered(sample: Sequence[Problem], args: argparse.Namespace) -> list[ProblemEnd]:
    """Lower the problems in workers and return the result of each."""
    tasks = {
        problem.name: {
            "problem": {"op": problem.op, "args": problem.args},
            "dialect": args.dialect,
            "out": str(args.out / f"{problem.name}.mlir"),
        }
        for problem in sample
    }
    found: list[ProblemEnd] = []
    with tempfile.TemporaryDirectory(prefix="vmfbench-lower-") as folder:
        work = Path(folder)
        job = Job(
            stage="lower",
            cell="sample",
            status_path=work / "status.json",
            log_path=work / "log.txt",
            command=(),
            request=StageRequest("benchmarks.lower_operators", str(args.env / "bin/python"), {}),
            timeout_s=60,
            memory_mb=8000,
        )
        Host(job, work, found.append).run(tasks)
    return found


if __name__ == "__main__":
    main()
