"""Time the verified rows of a batch of operator problems on a device: those of a problem in turns.

In a run, the supervisor of the job does this itself, under its limits (scripts/stages/supervise_batch.py).
"""

from __future__ import annotations

from scripts.core import requests
from scripts.core.requests import Folders
from scripts.features.operators.batch import timing
from scripts.features.operators.batch.batch_stage import Batch
from scripts.features.operators.batch.timing import OperatorTimingRequest
from scripts.matrix.stages import OUTCOMES
from scripts.run import job_arguments


def time_operators(request: OperatorTimingRequest, folders: Folders) -> None:
    """Write outcomes.jsonl and status.json. Exits if the batch was not timed."""
    batch = Batch.of_files(request.problems)
    job_arguments.run_by_hand("operator_time", folders, OUTCOMES, timing.work(request.group, batch))


if __name__ == "__main__":
    requests.run(OperatorTimingRequest, time_operators)
