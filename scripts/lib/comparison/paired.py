"""The ratio of two latencies that were measured in turns.

Each turn has a block of calls of both modules, one directly after the other. What changes the speed of the
machine for longer than a turn cancels in their ratio. The logarithms of the ratios of all turns are a sample
of independent values. A turn in which something else disturbed one of the blocks lies far from the others, so
the mean is trimmed (Tukey and McLaughlin 1963, "Less vulnerable confidence and significance procedures for
location based on a single sample").
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scripts.lib.iree.turns import MIN_TURNS, Turns
from scripts.lib.report.ratio import LogLatency

TRIMMED = 0.1
"""The share of turns that is left out at each end: one of 10 to 19."""
FLOOR = 0.002**2
"""The least variance of the logarithm of a turn's ratio."""


def log_ratios(turns: Turns, before: str, after: str) -> list[float]:
    """Return the logarithm of latency after / latency before for each complete turn.

    A block counts as the median of its repetitions.
    """
    blocks: dict[int, dict[str, float]] = {}
    for one in turns.blocks:
        blocks.setdefault(one.turn, {})[one.side] = math.log(statistics.median(one.values_ms))
    whole = [found for found in blocks.values() if {before, after} <= found.keys()]
    return [found[after] - found[before] for found in whole]


def estimate(ratios: Sequence[float]) -> LogLatency:
    """Return the trimmed mean of the logarithms with its variance. Raises ValueError for fewer than MIN_TURNS.

    The variance is that of the winsorized sample, (n - 1) s² / (h (h - 1)) for h of n values that are
    left, and the mean has a t distribution with h - 1 degrees of freedom. Without trimming this is a paired
    t test.
    """
    count = len(ratios)
    if count < MIN_TURNS:
        raise ValueError(f"{count} turns; expected at least {MIN_TURNS}")
    cut = int(TRIMMED * count)
    ordered = sorted(ratios)
    kept = ordered[cut : count - cut]
    winsorized = [min(max(one, kept[0]), kept[-1]) for one in ordered]
    variance = max(FLOOR, statistics.variance(winsorized))
    left = len(kept)
    scaled = variance * (count - 1) / (left * (left - 1))
    return LogLatency(statistics.fmean(kept), scaled, left - 1)


def median_ms(turns: Turns, side: str) -> float:
    """Return the median latency of a module over its blocks, in milliseconds."""
    blocks = [one.values_ms for one in turns.blocks if one.side == side]
    return statistics.median(map(statistics.median, blocks))
