"""The end of commands that print for people. Their output may go to a program that reads only a part of it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from typing import NoReturn

from scripts.core import plain

UNREAD = 128 + signal.SIGPIPE
"""The exit code of a command whose output is no longer read: that of a tool which SIGPIPE ends, in a shell."""


def run(main: Callable[[], int | None]) -> NoReturn:
    """Call `main` and exit with the code that it returns or exits with.

    If nobody reads its output any more (`| head`), the process ends with UNREAD and without a traceback.
    Control characters in what it prints are shown and not obeyed. SIGPIPE keeps Python's handling, because it would also end a process that writes to a closed connection.
    """
    plain.protect()
    try:
        try:
            code = main()
        finally:
            print(end="", flush=True)  # what is left is not first written when Python ends
    except BrokenPipeError:
        if not (unread := [fd for fd in (1, 2) if _is_unread(fd)]):
            raise
        # Python writes what is left once more when it ends.
        for fd in unread:
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        raise SystemExit(UNREAD) from None
    raise SystemExit(code)


def _is_unread(fd: int) -> bool:
    """Whether a file descriptor is a pipe, or a connection, whose other end is closed (poll(2))."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
