"""Checks whether Slurm keeps the accounting from which Snakemake's executor reads the state of its jobs."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any


def problem(settings: Any) -> str:
    """What is wrong and what to do, or ""; `settings` are those of the executor.

    By default the executor uses sacct if that is installed. If sacct fails (most often because the
    site keeps no accounting), the executor waits for its jobs without a message.
    """
    command = getattr(settings, "status_command", None)
    if command != "sacct" or not shutil.which(command):
        return ""
    asked = [command, "--allocations", "--noheader", "--format=JobID"]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    if not ended.returncode:
        return ""
    return (
        f"{' '.join(asked)}: exit code {ended.returncode}: {ended.stderr.strip()}; where Slurm keeps "
        "no accounting, set `slurm-status-command: squeue` in workflow/profiles/slurm/profile.yaml"
    )
