"""Compile the programs of a batch of operator problems together, each with an outcome of its own.

In a run, the supervisor of the job does this itself, under its limits (scripts/tools/operators/supervise_batch.py).
"""

from __future__ import annotations

from scripts.config.stages import OUTCOMES
from scripts.core import requests
from scripts.core.requests import Folders
from scripts.run import job_arguments
from scripts.tools.operators.batch import together
from scripts.tools.operators.batch.batch_stage import Batch
from scripts.tools.operators.batch.together import OperatorCompileRequest


def compile_operators(request: OperatorCompileRequest, folders: Folders) -> None:
    """Write outcomes.jsonl and status.json. Exits if the batch was not compiled."""
    batch = Batch.of_files(request.problems, request.before)
    job_arguments.run_by_hand("operator_compile", folders, OUTCOMES, together.work(request, batch))


if __name__ == "__main__":
    requests.run(OperatorCompileRequest, compile_operators)
