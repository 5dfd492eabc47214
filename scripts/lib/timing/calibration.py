"""How fast the machine is just now: two small kernels of fixed work, timed around what is measured.

Both run on as many threads as the measurement computes with. The one computes within the first-level
cache: numpy.correlate is one dot product of a vector that stays there after another, without the
interpreter in between. The other copies more memory than the last-level caches hold. Neither uses a
thread pool of a library's, so they are the same code in every environment.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from scripts.lib.core.machine import cache_bytes, cpu_name

FILTER = 2048
"""Elements of the vector that stays in the first-level cache: 8 KiB. OpenBLAS takes more threads for
a dot product only from 10,000 elements on."""
SIGNAL = 18_000
"""Elements that it is multiplied with, at each offset: 72 KiB."""
PASSES = 5
"""Of each kernel, together some 20 ms; one more goes before them. The median of them counts: one pass
may be interrupted, and says nothing about the machine's speed then."""
COPIED_BYTES = (32 * 2**20, 512 * 2**20)
"""Read and written in a pass of the copy, at least and at most: twice the last-level caches."""


@dataclass(frozen=True)
class Calibration:
    """Seconds of a pass of both kernels, one value each time that they were run, in order; on
    `threads` threads of the CPU that is named `cpu`."""

    cpu: str
    threads: int
    compute_s: tuple[float, ...]
    memory_s: tuple[float, ...]


class Calibrator:
    """The kernels, ready to run; its threads and buffers are gone when the context is left."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        at_least, at_most = COPIED_BYTES
        copied = min(at_most, max(at_least, 2 * cache_bytes() * threads))
        each = copied // 2 // threads // 4
        self._memory = [(np.ones(each, np.float32), np.ones(each, np.float32)) for _ in range(threads)]  # fmt: skip
        signal = np.linspace(0.5, 1.5, SIGNAL, dtype=np.float32)
        self._vectors = [(signal.copy(), signal[:FILTER].copy()) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="calibration")
        self._compute_s: list[float] = []
        self._memory_s: list[float] = []

    def __enter__(self) -> Calibrator:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        self._memory.clear()

    @property
    def resident_mb(self) -> float:
        """MiB that its buffers hold of this process's resident set."""
        return sum(a.nbytes + b.nbytes for a, b in self._memory) / 2**20

    def take(self) -> None:
        """Run both kernels once and keep their seconds."""
        self._compute_s.append(self._time(self._compute))
        self._memory_s.append(self._time(self._copy))

    @property
    def result(self) -> Calibration:
        """What was taken."""
        return Calibration(cpu_name(), self._threads, tuple(self._compute_s), tuple(self._memory_s))

    def _time(self, kernel: Callable[[int], None]) -> float:
        """Median wall seconds of PASSES passes on all threads at once, after one that wakes them up."""
        seconds = [self._pass(kernel) for _ in range(1 + PASSES)]
        return statistics.median(seconds[1:])

    def _pass(self, kernel: Callable[[int], None]) -> float:
        start = time.perf_counter()
        list(self._pool.map(kernel, range(self._threads)))
        return time.perf_counter() - start

    def _compute(self, number: int) -> None:
        np.correlate(*self._vectors[number], "valid")

    def _copy(self, number: int) -> None:
        source, copy = self._memory[number]
        np.copyto(copy, source)
