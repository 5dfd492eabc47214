"""One measurement alone, or many other stages beside each other: a lock over a run's stages.

Every stage enters the room. One that is about to be timed waits until it is the only one in it, and
none enters until it has left. The kernel drops both locks with the process that holds them
(flock(2)), so that a killed supervisor keeps nobody out.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO


class Room:
    """The lock files of a run, on this machine, in `folder`. Nothing here blocks: try again.

    `door` is held shared by whoever waits to be alone, or is; entering wants it for a moment by
    itself. So those who wait come before those who have yet to enter, of whom there would always
    be more. `inside` is held shared by each stage, and exclusively by one that is alone.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._door = (folder / "door.lock").open("a")
        self._inside = (folder / "inside.lock").open("a")

    def try_enter(self) -> bool:
        """Enter beside others; False while another is alone, or waits to be."""
        if not _try(self._door, fcntl.LOCK_EX):
            return False
        try:
            return _try(self._inside, fcntl.LOCK_SH)
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)

    def try_be_alone(self) -> bool:
        """Be the only one inside; False while others are. Waiting, this one counts as outside."""
        if not _try(self._door, fcntl.LOCK_SH):
            return False
        # A conversion that fails loses the shared lock, as it should: two that wait for each
        # other to leave would wait for ever.
        return _try(self._inside, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Leave, whatever was held."""
        self._door.close()
        self._inside.close()


def _try(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
