"""The ratio of two latencies that were measured in turns.

Each turn has a block of calls of both modules, one directly after the other. What changes the speed of the
machine for longer than a turn cancels in their ratio. The logarithms of the ratios of all turns are a sample
of independent values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from scripts.lib.comparison import decisions
from scripts.lib.iree.turns import Turns
from scripts.lib.report import ratio
from scripts.lib.report.ratio import LogLatency

MIN_TURNS = 6
"""The moments of the t distributions that a mean over cells needs exist from 5 degrees of freedom on."""
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
    """Return the mean of the logarithms with its variance. Raises ValueError for fewer than MIN_TURNS."""
    if len(ratios) < MIN_TURNS:
        raise ValueError(f"{len(ratios)} turns; expected at least {MIN_TURNS}")
    variance = max(FLOOR, statistics.variance(ratios))
    return LogLatency(statistics.fmean(ratios), variance / len(ratios), len(ratios) - 1)


def verdict(turns: Turns, before: str, after: str, threshold: float, rate: float = 0.05) -> str:
    """Return what is said of one module alone: one of decisions.VERDICTS.

    `threshold`: the ratio from which a change matters. `rate`: of false alarms. Raises ValueError
    for too few turns.
    """
    of = estimate(log_ratios(turns, before, after))
    return decisions.decide([ratio.difference(of.value, [of])], rate, threshold)[0].verdict
