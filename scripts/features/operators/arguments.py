"""Command-line options of the commands that run a stage on a batch of problems, and their values."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from scripts.features.operators.batch.stage import Batch
from scripts.features.operators.problems.problem import Problem
from scripts.run import fingerprint
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options, to those of job_arguments."""
    parser.add_argument("--problems", required=True, type=Path, help="JSONL: those of the batch")
    parser.add_argument(
        "--before",
        nargs="*",
        default=[],
        type=Path,
        help="outcomes.jsonl of the stages before, results/<stage>/<cell>/outcomes.jsonl",
    )
    parser.add_argument("--pins", default="", help="digest of the environment's pins")
    parser.add_argument(
        "--retry", default="", help="statuses of problems to handle again, separated by commas"
    )


def batch(args: argparse.Namespace, job: Job) -> Batch:
    """Return the batch of the options."""
    retry = frozenset(filter(None, args.retry.split(",")))

    def again(found: Outcome) -> bool:
        return fingerprint.is_wanted(found, job.fingerprint, retry)

    lines = args.problems.read_text(encoding="utf-8").splitlines()
    problems = [Problem.from_json(json.loads(line)) for line in lines]
    before = {_stage(path): path for path in args.before}
    return Batch(problems, before, args.pins, again)


def _stage(path: Path) -> str:
    """Return the stage of results/<stage>/<cell>/outcomes.jsonl."""
    parts = path.parts
    return parts[parts.index("results") + 1]
