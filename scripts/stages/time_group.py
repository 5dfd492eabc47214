"""Time the verified rows of a group in turns: of one model, device, number of threads and test.

In a run, the supervisor of the job does this itself, under its limits (scripts/stages/supervise.py).
"""

from __future__ import annotations

from scripts.core import requests
from scripts.core.requests import Folders
from scripts.run import job_arguments
from scripts.supervise import group
from scripts.supervise.group import TIMING, GroupRequest


def time_group(request: GroupRequest, folders: Folders) -> None:
    """Write the timing, and status.json. Exits if the group was not timed."""
    job_arguments.run_by_hand("time", folders, TIMING, group.work(request))


if __name__ == "__main__":
    requests.run(GroupRequest, time_group)
