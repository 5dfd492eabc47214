"""Counts user-space instructions by the processor's counters (Linux, perf_event_open(2)).

They hardly depend on what else the machine does, unlike CPU time. Most virtual machines and many containers have no
counters.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SYSCALL = 298
"""perf_event_open's number on x86-64."""
_HARDWARE, _INSTRUCTIONS = 0, 1
_INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 0b11
"""The count is read with the nanoseconds that the event was enabled, and that it was counted."""


@dataclass
class Count:
    """What was counted, when the block has ended; None if the processor's counters cannot be read."""

    value: int | None = None


@contextlib.contextmanager
def counted(kind: int = _HARDWARE, event: int = _INSTRUCTIONS) -> Iterator[Count]:
    """Count the user-space instructions of the calling thread and of all processes that it starts within the block and that
    end within it.

    Another event has its numbers in linux/perf_event.h. A counter that was shared with other events, and so did not count all
    of the time, gives no value.
    """
    flags = _INHERIT | _NO_KERNEL | _NO_HYPERVISOR
    # struct perf_event_attr in its first version, of 64 bytes.
    attributes = struct.pack("=IIQQQQQIIQ", kind, 64, event, 0, 0, _TIMES, flags, 0, 0, 0)
    counter = ctypes.CDLL(None).syscall(_SYSCALL, attributes, 0, -1, -1, 0)
    count = Count()
    if counter < 0:
        yield count
        return
    try:
        yield count
        value, enabled, running = struct.unpack("=QQQ", os.read(counter, 24))
        count.value = value if enabled == running else None
    finally:
        os.close(counter)
