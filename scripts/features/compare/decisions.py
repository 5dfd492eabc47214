"""Decides which of many differences are real, at a stated rate of false discoveries.

The p-values of all cells are adjusted by Benjamini and Hochberg (1995, "Controlling the false discovery rate").
The intervals have the level that belongs to that: 1 - rate × max(R, 1) / m, where R of m cells are found to
differ (Benjamini and Yekutieli 2005, "False discovery rate-adjusted multiple confidence intervals"). So an
interval excludes 1 exactly for the cells that are found to differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.timing.ratios import ALIKE as SAME
from scripts.timing.ratios import FASTER, SLOWER, UNDECIDED, Difference, Interval

VERDICTS = {
    SLOWER: "the interval is above 1",
    FASTER: "the interval is below 1",
    SAME: "the interval contains 1, and is within the threshold on both sides",
    UNDECIDED: "the interval contains 1, and changes above the threshold too",
}
"""What is said of a latency, with its meaning."""
POWER = 0.8
"""The probability with which the smallest detectable change would be found."""


@dataclass(frozen=True)
class Decision:
    """`q`: the smallest rate of false discoveries at which the cell is found to differ. `smallest`: a
    slow-down by this factor would have been found with the probability POWER."""

    interval: Interval
    q: float
    smallest: float
    verdict: str


def decide(found: Sequence[Difference], rate: float, threshold: float) -> list[Decision]:
    """Return the decision of each difference (logarithms of after / before).

    `rate`: of false discoveries. `threshold`: the ratio from which a change matters, above 1.
    """
    if not found:
        return []
    adjusted = _adjusted([one.p_value for one in found])
    alpha = rate * max(1, sum(q <= rate for q in adjusted)) / len(found)
    return [
        _decision(one, q, alpha, rate, threshold) for one, q in zip(found, adjusted, strict=True)
    ]


def _adjusted(p_values: Sequence[float]) -> list[float]:
    from scipy.stats import false_discovery_control

    return [float(q) for q in false_discovery_control(p_values, method="bh")]


def _decision(one: Difference, q: float, alpha: float, rate: float, threshold: float) -> Decision:
    interval = one.interval(1 - alpha)
    if q <= rate:
        verdict = SLOWER if one.value > 0 else FASTER
    else:
        within = interval.low > 1 / threshold and interval.high < threshold
        verdict = SAME if within else UNDECIDED
    return Decision(interval, q, smallest(one, alpha), verdict)


def smallest(one: Difference, alpha: float) -> float:
    """Return the slow-down that is found with the probability POWER by a test at the level `alpha`.

    It is the sum of both quantiles of Student's t distribution, an approximation by which the error
    of the scale is taken as that of a test without a difference.
    """
    from scipy.special import stdtrit

    quantiles = float(stdtrit(one.df, 1 - alpha / 2) + stdtrit(one.df, POWER))
    return math.exp(min(quantiles * one.scale, 700.0))
