"""Whether a stage that died of SIGKILL was killed by the kernel for memory, or from outside.

Who sent a SIGKILL cannot be asked. The supervisor knows of its own before it sends one; for one of
the kernel's, the kernel counts up just before. Any other is from outside. All three look the same
for a forked stage, whose exit code the fork server passes on.
"""

from __future__ import annotations

import time

from scripts.lib.core import process

LOOK_SECONDS = 1.0
"""Between two looks at the kernel's counter while a stage runs."""
ENDING_SECONDS = 30.0
"""How long a process may take to end once the kernel has killed it: it gives back much memory."""


class KernelKills:
    """Follows the kernel's count of processes that it has killed for memory."""

    def __init__(self) -> None:
        self._count = process.kernel_oom_kills()
        self._looked_at = time.monotonic()
        self._killed_at = float("-inf")

    def follow(self) -> None:
        """Look at the count now and then: another stage may be killed while this one runs on."""
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
