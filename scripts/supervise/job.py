"""The description of a stage to run, for the supervisor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core.requests import StageRequest


@dataclass(frozen=True)
class Job:
    """One stage of one cell: what to run, what it makes, what it may use.

    `request`: what is asked of the stage, which is written beside the status; its `command` makes `artifacts` in the folder
    that `--out` names. None for a command of a tool, in which each path of an artifact is replaced by a scratch path.
    `memory_mb` limits the resident set of the whole process tree. `skip` is the reason why the job must not run at all.
    `owner` is the process that must remain this one's parent (default: the present parent); if it ends, the job stops.
    `more_time` and `more_memory`: the limit would be larger in a further attempt. `preload`: fork the stage from the run's
    process that has imported the packages of its environment (fork_server). `sandbox`: the folder that it may write to, as its model file
    is not trusted (sandbox.py); None for no sandbox. `hang`: why it is not run, as it is known to hang ("": it is run).
    """

    stage: str
    cell: str
    status_path: Path
    log_path: Path
    command: Sequence[str]
    timeout_s: float
    memory_mb: float
    artifacts: Sequence[Path] = ()
    upstream: Sequence[Path] = ()
    skip: str = ""
    fingerprint: str = ""
    due: str = ""
    owner: int | None = None
    journal: Path | None = None
    more_time: bool = False
    more_memory: bool = False
    preload: bool = False
    sandbox: Path | None = None
    hang: str = ""
    request: StageRequest | None = None

    def reads(self) -> list[str]:
        """Words among which are the files that it reads."""
        return [*self.request.texts()] if self.request else [*self.command]

    def required_parent(self) -> int:
        """The process that must remain this one's parent, as it is now. Raises Interrupted if the owner has ended."""
        parent = os.getppid()
        if self.owner not in (None, parent):
            raise Interrupted(
                f"{self.stage} {self.cell}: process {self.owner} that asked for it is gone"
            )
        return parent


class MoreNeeded(Exception):
    """A limit was reached, and a further attempt would have a larger one: no outcome is recorded."""


class Interrupted(Exception):
    """The process that requested this job has ended, or told it to stop: no outcome is recorded."""


class CannotStart(Exception):
    """The command does not exist or may not be run."""
