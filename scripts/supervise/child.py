"""The process of a stage, as the supervisor handles it: its tree, its end, its memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from scripts.core import process
from scripts.supervise.job import CannotStart

Ended = tuple[int, float]
"""Exit code (negative: signal), peak resident set of the process itself in MiB (ru_maxrss)."""


class Child(Protocol):
    """One stage's process and all that it starts."""

    pid: int

    def tree(self) -> list[int]:
        """Process ids of the stage and of everything that it started, in all sessions."""

    def reap(self) -> Ended | None:
        """How the process of the stage ended; None while it is running."""

    def kill(self) -> Ended:
        """Kill the whole tree and wait for its end."""

    def clear(self) -> None:
        """Kill the processes that an ended stage has left running."""


class Spawned:
    """A child of this process, started as a new program.

    All descendants of this process are its tree. If it is one of `several` children, only its own descendants are, and
    `clear` does nothing: what else it has started is killed when all of them have ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        output: int,
        channel: int,
        folder: Path | None = None,
        several: bool = False,
    ) -> None:
        """`folder`: in which it runs; None for that of this process."""
        self._several = several
        process.adopt_orphans()
        try:
            self._popen = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=process.child_setup(os.getpid()),
                env=dict(env),
                pass_fds=[channel],
                cwd=folder,
            )
        except OSError as error:  # an environment that was moved away, say
            raise CannotStart(str(error)) from error
        self.pid = self._popen.pid

    def tree(self) -> list[int]:
        if self._several:
            return [self.pid, *process.descendants(self.pid)]
        return process.descendants(os.getpid())

    def reap(self, options: int = os.WNOHANG) -> Ended | None:
        pid, status, usage = os.wait4(self.pid, options)
        if not pid:
            return None
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        return self._popen.returncode, process.rss_mb(usage)

    def kill(self) -> Ended:
        if self._several:
            process.kill_tree(self.pid)
        else:
            process.kill_descendants(spare=self.pid)
        ended = self.reap(0)
        assert ended is not None  # without WNOHANG, wait4 returns when it has ended
        return ended

    def clear(self) -> None:
        if not self._several:
            process.kill_descendants()
