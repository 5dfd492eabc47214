"""What the node of a submission leaves, and whether Slurm can tell how its jobs ended."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any


def leave_marks() -> None:
    """On a node, leave outputs marked as incomplete until the submitting Snakemake sees the end of their job.

    That Snakemake then records params and inputs, and removes the mark. If it was killed, Snakemake 9.27 would take
    outputs without mark and record as complete, and never compare their params again. With the mark, the next run
    repeats their jobs (`rerun-incomplete` of the default profile).
    """
    from snakemake.persistence import PersistenceBase

    async def finished(self: Any, job: Any) -> None:
        pass

    PersistenceBase.finished = finished


def accounting_problem(settings: Any) -> str:
    """What is wrong with Slurm's accounting, from which Snakemake's executor with these `settings` reads the state
    of its jobs; "" if nothing is.

    By default the executor uses sacct if that is installed. If sacct fails (most often because the site keeps no
    accounting), the executor waits for its jobs without a message.
    """
    command = getattr(settings, "status_command", None)
    if command != "sacct" or not shutil.which(command):
        return ""
    query = [command, "--allocations", "--noheader", "--format=JobID"]
    ended = subprocess.run(query, capture_output=True, text=True, check=False)
    if not ended.returncode:
        return ""
    return (
        f"{' '.join(query)}: exit code {ended.returncode}: {ended.stderr.strip()}; where Slurm keeps "
        "no accounting, set `slurm-status-command: squeue` in workflow/profiles/slurm/profile.yaml"
    )
