"""What the triads and products of timing/machine_limits.py have in common, whatever computes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from scripts.core.machine import cache_bytes

SCALE, ADDED, SCALED = 3.0, 1.0, 2.0
"""s, and the values of b and c, of a = b + s × c."""
RESULT = ADDED + SCALE * SCALED
"""The values of a."""
SIZES = {"cpu": (1024, 2048), "cuda": (4096, 8192)}
"""n of the products of two n × n matrices, by kind of device."""
PROBES = {"cpu": 256}
"""n of a product that is no sample, and shows how long the others would take."""
OTHER_SIZES = (512, 1024, 2048, 4096, 8192)
"""n of the products on other kinds of device, up to the first of which a call takes LONG seconds."""
LONG = 0.1
TOO_LONG = 8.0
"""A product that would take more seconds, by the time of a smaller one of its dtype, is not run. (IREE 3.13 computes
products of bf16 thirty times slower than those of f32 on a CPU without instructions for it: a call with n = 1024 took
19 s.)"""
SECONDS = 0.3
"""How long each sample is timed, after one call that does not count."""
AT_LEAST, AT_MOST_S = 5, 3.0
"""The minimum number of calls of a sample, unless they take more seconds than AT_MOST_S."""
ARRAY_BYTES = (64 * 2**20, 512 * 2**20)
"""Minimum and maximum bytes of each array of the largest triad. STREAM requests four times the last-level
caches."""
CACHED_ARRAY_BYTES = tuple(2**exponent for exponent in range(17, 30, 2))
"""Bytes of each array of the small triads: 128 KiB, and four times as many for each next one."""
CHECKED_ROWS = 4
"""Rows of a product that are compared with numpy's."""


class WrongResult(Exception):
    """A triad or product has another result than expected. Says which."""


def array_bytes(device: str, cores: int) -> tuple[int, int]:
    """Bytes of an array of the two large triads of a device. The caches hold neither."""
    at_least, at_most = ARRAY_BYTES
    if device not in SIZES:  # Vulkan may allow no larger buffer than 128 MiB
        return at_least, 2 * at_least
    cached = at_most if device != "cpu" else 4 * cache_bytes() * cores
    largest = min(at_most, max(at_least, cached))
    return largest // 2, largest


def cached_array_bytes(device: str, cores: int) -> list[int]:
    """Bytes of an array of the small triads, which caches may hold. Only for a CPU: on other devices,
    starting a small triad takes longer than the triad."""
    if device != "cpu":
        return []
    smallest, _ = array_bytes(device, cores)
    return [size for size in CACHED_ARRAY_BYTES if 4 * size <= smallest]


def timed(call: Callable[[], Any], finish: Callable[[], None]) -> tuple[float, ...]:
    """Seconds of each call for SECONDS seconds, at least AT_LEAST calls. `finish` waits for the device."""
    call()
    finish()
    seconds: list[float] = []
    begun = time.perf_counter()
    while (spent := time.perf_counter() - begun) < SECONDS or len(seconds) < AT_LEAST:
        if seconds and spent > AT_MOST_S:
            break
        start = time.perf_counter()
        call()
        finish()
        seconds.append(time.perf_counter() - start)
    return tuple(seconds)


def signs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two n × n matrices of 1 and -1. Their product is exact in float32 in any order of summation."""
    random = np.random.default_rng(0)
    left, right = (random.integers(0, 2, (n, n)).astype(np.float32) * 2 - 1 for _ in range(2))
    return left, right


def permutation(n: int) -> np.ndarray:
    """An n × n permutation matrix. Any number of products with it are exact in every dtype."""
    return np.eye(n, dtype=np.float32)[np.random.default_rng(1).permutation(n)]


def check_triad(what: str, least: float, most: float) -> None:
    """Raise WrongResult unless the least and the largest value of a triad's result are right."""
    if (least, most) != (RESULT, RESULT):
        raise WrongResult(f"{what}: values from {least:g} to {most:g}, expected {RESULT:g}")


def check_product(
    what: str, rows: np.ndarray, left: np.ndarray, right: np.ndarray, count: int = 1
) -> None:
    """Raise WrongResult if the first rows of left @ right are off by more than bfloat16 rounds; of `count` products
    by the same right matrix, those of the last one."""
    want = left[: len(rows)].astype(np.float64)
    for _ in range(count):
        want = want @ right
    if rows.shape != want.shape or not np.allclose(rows, want, rtol=1e-2, atol=1e-2):
        raise WrongResult(f"{what}: its first {len(rows)} rows differ from those of numpy")
