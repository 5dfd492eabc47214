"""A lock over the stages of a run: either one measurement runs exclusively, or many other stages run.

Every stage enters the room. A stage that is about to be timed waits until it is the only one in the
room, and no other enters until it has left. The kernel releases both locks when the process that
holds them ends (flock(2)), so a killed supervisor blocks nobody.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO


class Room:
    """The lock files of a run on this machine, in `folder`. No method blocks; callers try again.

    A stage that waits for exclusive access, or has it, holds `door` shared. Entering requires `door`
    exclusively for a moment. So stages that wait for exclusive access have precedence over stages
    that want to enter, of which there would always be more. Every stage inside holds `inside` shared;
    the stage with exclusive access holds it exclusively.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._door = (folder / "door.lock").open("a")
        self._inside = (folder / "inside.lock").open("a")

    def try_enter(self) -> bool:
        """Enter the room; False while another stage has exclusive access or waits for it."""
        if not try_lock(self._door, fcntl.LOCK_EX):
            return False
        try:
            return try_lock(self._inside, fcntl.LOCK_SH)
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)

    def try_be_alone(self) -> bool:
        """Get exclusive access; False while others are inside. A stage that waits counts as outside."""
        if not try_lock(self._door, fcntl.LOCK_SH):
            return False
        # A conversion that fails releases the shared lock, which is intended: otherwise two stages
        # that wait for each other to leave would wait forever.
        return try_lock(self._inside, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Leave the room and release all locks."""
        self._door.close()
        self._inside.close()


def try_lock(file: IO[str], how: int) -> bool:
    """Lock a file, if no other process holds a lock that excludes it. `how`: LOCK_SH or LOCK_EX of fcntl."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
