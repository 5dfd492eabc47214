"""Whether calls of a program leave memory behind: by the private memory of its process after each slice of calls."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise

LEAST_BYTES = 64 * 1024
"""By which memory has to grow in each of the last three quarters of the slices of every process."""
LEAST_SLICES = 12
"""In eager mode, the memory of GPT-2 (prefill, calls of 200 ms) grows in each of its first four calls, and then by up to 12 MB in one
call and back in another: the first five slices look like a leak."""
LEAST_PROCESSES = 2


class Held:
    """The calls that a process has made, and the bytes of its private memory, after each of its slices."""

    def __init__(self) -> None:
        # Numbers of Python would be a leak themselves.
        self._calls, self._bytes = array("q"), array("q")

    def add(self, calls: int, private_bytes: int) -> None:
        """Add a slice of `calls` calls."""
        self._calls.append(calls + (self._calls[-1] if self._calls else 0))
        self._bytes.append(private_bytes)

    def left_per_call(self) -> int | None:
        """The bytes that each call has left; 0 if memory did not grow in each of the last three quarters of the slices, and None if
        there were too few. The first quarter is the warm-up."""
        count = len(self._calls)
        if count < LEAST_SLICES:
            return None
        places = [count // 4, count // 2, 3 * count // 4, count - 1]
        held = [self._bytes[place] for place in places]
        if min(after - before for before, after in pairwise(held)) < LEAST_BYTES:
            return 0
        return round((held[-1] - held[0]) / (self._calls[-1] - self._calls[places[0]]))


def of_processes(left: Sequence[int | None]) -> int | None:
    """The bytes that each call of a program leaves, by those of its processes: the least of them, so 0 if one of them does not grow. None
    if too few are known."""
    known = [size for size in left if size is not None]
    return min(known) if len(known) >= LEAST_PROCESSES else None
