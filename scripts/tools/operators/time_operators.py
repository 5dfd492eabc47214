"""Time the verified rows of a batch of operator problems on a device: those of a problem in turns.

In a run, the supervisor of the job does this itself, under its limits (scripts/tools/operators/supervise_batch.py).
"""

from __future__ import annotations

from scripts.config.stages import OUTCOMES
from scripts.core import requests
from scripts.core.requests import Folders
from scripts.run import job_arguments
from scripts.tools.operators.batch import timing
from scripts.tools.operators.batch.batch_stage import Batch
from scripts.tools.operators.batch.timing import OperatorTimingRequest


def time_operators(request: OperatorTimingRequest, folders: Folders) -> None:
    """Write outcomes.jsonl and status.json. Exits if the batch was not timed."""
    batch = Batch.of_files(request.problems)
    job_arguments.run_by_hand("operator_time", folders, OUTCOMES, timing.work(request.group, batch))


if __name__ == "__main__":
    requests.run(OperatorTimingRequest, time_operators)
