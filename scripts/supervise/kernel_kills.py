"""Whether a stage that died of SIGKILL was killed by the kernel for memory, or from outside.

A process cannot find out who sent a SIGKILL. The supervisor knows when it sends one itself. When the
kernel's out-of-memory killer sends one, the kernel's counter rises just before. Any other SIGKILL is
from outside. The same holds for a forked stage, whose exit code the fork server passes on.
"""

from __future__ import annotations

import time

from scripts.core import process

LOOK_SECONDS = 1.0
"""Seconds between two readings of the kernel's counter while a stage runs."""
ENDING_SECONDS = 30.0
"""How long a process may take to end after the kernel has killed it: it frees much memory."""


class KernelKills:
    """Follows the kernel's counter of processes killed for memory."""

    def __init__(self) -> None:
        self._count = process.kernel_oom_kills()
        self._looked_at = time.monotonic()
        self._killed_at = float("-inf")

    def follow(self) -> None:
        """Read the counter from time to time: another stage may be killed while this one continues."""
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._look()

    def lately(self) -> bool:
        """Whether the kernel has killed a process within ENDING_SECONDS."""
        self._look()
        return time.monotonic() - self._killed_at < ENDING_SECONDS

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        if (count := process.kernel_oom_kills()) > self._count:
            self._count, self._killed_at = count, self._looked_at
