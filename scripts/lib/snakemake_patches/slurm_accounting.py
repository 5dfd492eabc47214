"""Whether Slurm keeps the accounting that Snakemake's executor asks for the state of its jobs."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any


def problem(settings: Any) -> str:
    """What is wrong and what to do, "" where nothing is; `settings` are the executor's.

    It asks sacct wherever that is installed and nothing else is said, and where sacct fails
    (most often as the site keeps no accounting) it waits for its jobs without a word.
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
