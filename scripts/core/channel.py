"""Messages of a running stage to its supervisor. Without a supervisor, these functions do nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

VARIABLE = "VMFBENCH_CHANNEL"
"""Environment variable of a stage: the file descriptor of its connection to the supervisor."""

WORKING = b"working\n"
NEXT = b"next\n"
MARK = b"mark "


def working() -> None:
    """Report that start-up is over: the packages are imported and the work begins."""
    _send(WORKING)


def next_one() -> None:
    """Report that the next of several programs begins, and restart the time limit for it."""
    _send(NEXT)


def mark(name: str) -> None:
    """Report that a part of the work begins, for the memory over time (supervise/memory_series.py)."""
    _send(MARK + name.encode() + b"\n")


def requests() -> Iterator[dict[str, Any]]:
    """The requests of a coordinator, one JSON object per line, until it closes the channel."""
    with os.fdopen(os.dup(int(os.environ[VARIABLE])), encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def answer(message: dict[str, Any]) -> None:
    """Send a JSON object to the coordinator."""
    data = json.dumps(message).encode() + b"\n"
    fd = int(os.environ[VARIABLE])
    while data:
        data = data[os.write(fd, data) :]


def _send(message: bytes) -> None:
    """Send a line, if there is a supervisor."""
    if VARIABLE in os.environ:
        os.write(int(os.environ[VARIABLE]), message)
