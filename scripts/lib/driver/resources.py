"""What a stage asks a cluster's scheduler for, from the size of its model's weights.

On one's own machine a stage may use what its limits allow. On a cluster what is asked for is
waited for, so it is estimated from what the stages use, with room, and grows with each attempt.
The last attempt has all that the limits allow; where they say nothing of memory, the most of the
estimates. Its outcome is the row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from scripts.lib.config import plugins

ATTEMPTS = 3
"""Attempts until a stage has all that its limits allow: a profile's `retries` is one less, or more."""
GROWTH = 2
"""Each attempt asks for so many times more than the one before."""
CPUS = 2
"""Of an exporter or a compiler: most of their time is spent in one thread."""
UNKNOWN_WEIGHTS_MB = 1024
"""Taken for a model whose reference is not made yet."""
OVERHEAD_MB = 1024
"""Beside the stage in its job: the supervisor, and Snakemake twice."""
OVERHEAD_S = 60
"""Before and after the stage in its job: Snakemake twice, and files that appear late."""


@dataclass(frozen=True)
class _Need:
    """Memory (MiB) and time (s): a base, and the time per GiB of weights."""

    base_mb: float
    base_s: float
    s_a_gb: float


# What the default run's stages and the whole language models of docs/models.md took on two cores
# (at most: reference 2.6 GB and 109 s for 7.1 GB of weights, export 2.8 GB and 61 s for 7.1 GB,
# compile 2.2 GB, baseline 36 s), twice over.
_NEEDS = {
    "reference": _Need(3000, 120, 30),
    "gradients": _Need(3000, 120, 60),
    "export": _Need(3000, 120, 20),
    "compile": _Need(3000, 120, 0),
    "measure": _Need(1500, 60, 20),
    "baseline": _Need(3000, 120, 30),
    "dumps": _Need(4000, 300, 60),
}
_ROOM = 1.5
"""Times what a stage takes of its weights at least (_memory_factor)."""


@dataclass(frozen=True)
class Ask:
    """`memory_mb` and `timeout_s` hold the stage; `mem_mb` and `runtime` (minutes) are its job's,
    and hold the stage with what runs around it. `more_memory`, `more_time`: 1 where a further
    attempt has more."""

    memory_mb: int
    timeout_s: float
    mem_mb: int
    runtime: int
    more_memory: int = 0
    more_time: int = 0


def within_limits(memory_mb: int, timeout_s: float) -> Ask:
    """What a stage gets on one's own machine: all that its limits allow."""
    return Ask(memory_mb, timeout_s, memory_mb, _minutes(timeout_s))


def of(
    stage: str,
    limit: Mapping[str, float],
    weights_mb: float | None,
    attempt: int,
    budget_s: float = 0.0,
) -> Ask:
    """What a stage asks a cluster for.

    `limit` is its entry of `limits` (timeout_s, and memory_mb where that is set), `weights_mb` the
    size of its model's weights, None where not known yet, `attempt` counts from 1, and `budget_s`
    is what a measurement may take for its repetitions.
    """
    need = _NEEDS[stage]
    weights_mb = UNKNOWN_WEIGHTS_MB if weights_mb is None else weights_mb
    growth = GROWTH ** (min(attempt, ATTEMPTS) - 1)
    memory_mb = growth * (need.base_mb + _ROOM * _memory_factor(stage) * weights_mb)
    timeout_s = growth * (need.base_s + need.s_a_gb * weights_mb / 1024 + budget_s)
    last = attempt >= ATTEMPTS
    at_most_mb = limit.get("memory_mb", math.inf)
    if memory_mb > at_most_mb or (last and "memory_mb" in limit):
        memory_mb = at_most_mb
    if last or timeout_s > limit["timeout_s"]:
        timeout_s = limit["timeout_s"]
    return Ask(
        memory_mb=math.ceil(memory_mb),
        timeout_s=timeout_s,
        mem_mb=math.ceil(memory_mb) + OVERHEAD_MB,
        runtime=_minutes(timeout_s + OVERHEAD_S),
        more_memory=int(not last and memory_mb < at_most_mb),
        more_time=int(not last and timeout_s < limit["timeout_s"]),
    )


@functools.cache
def _memory_factor(stage: str) -> float:
    """A stage's memory by the bytes of the weights: the largest that one of its plugins declares."""
    if stage == "compile":  # weights are no part of a program
        return 0.0
    if stage == "export":
        return max(exporter.memory_factor for exporter in plugins.exporters())
    if stage in ("baseline", "dumps"):
        return max(runtime.memory_factor for runtime in plugins.runtimes())
    return 1.0


def _minutes(seconds: float) -> int:
    return math.ceil(seconds / 60)
