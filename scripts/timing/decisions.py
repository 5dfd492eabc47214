"""Which of several changes are real.

It is decided at a stated rate of false discoveries: the p-values of all changes are adjusted by Benjamini and Hochberg
(1995, "Controlling the false discovery rate"). The intervals have the level that belongs to that: 1 - rate × max(R, 1) / m,
where R of m changes are real (Benjamini and Yekutieli 2005, "False discovery rate-adjusted multiple confidence intervals").
So an interval excludes 1 exactly for the changes that are real. One that is too wide to be a number (Interval.is_known) decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.timing.ratios import ALIKE as SAME
from scripts.timing.ratios import CONFIDENCE, FASTER, SLOWER, UNDECIDED, Difference

EQUIVALENCE = 1 - 2 * (1 - CONFIDENCE)
"""The level of the interval that has to lie within the threshold for SAME. A change at the threshold is then called SAME with a
probability of 1 - CONFIDENCE at most, since it can only be missed at one end (two one-sided tests; Schuirmann 1987, "A comparison of
the two one-sided tests procedure and the power approach for assessing the equivalence of average bioavailability")."""
POWER = 0.8
"""The probability with which the smallest detectable change would be found."""


@dataclass(frozen=True)
class Decision:
    """`ratio`: after / before, with its interval. `q`: the smallest rate of false discoveries at which the change is real.
    `smallest`: a slow-down by this factor would have been found with the probability POWER. `verdict`: SLOWER or FASTER if
    the interval excludes 1 and is not too wide (Interval.is_known); else SAME if the interval of this change alone, at the level EQUIVALENCE, is within the threshold on
    both sides, or UNDECIDED."""

    ratio: float
    low: float
    high: float
    q: float
    smallest: float
    verdict: str


def decide(differences: Sequence[Difference], rate: float, threshold: float) -> list[Decision]:
    """Return the decision of each difference (logarithms of after / before).

    `rate`: of false discoveries. `threshold`: the ratio from which a change matters, above 1.
    """
    from scipy.stats import false_discovery_control

    if not differences:
        return []
    p_values = [difference.p_value for difference in differences]
    adjusted = [float(q) for q in false_discovery_control(p_values, method="bh")]
    alpha = rate * max(1, sum(q <= rate for q in adjusted)) / len(differences)
    decisions = []
    for difference, q in zip(differences, adjusted, strict=True):
        at = difference.interval(1 - alpha)
        if not at.is_known:
            verdict = UNDECIDED
        elif q <= rate:
            verdict = SLOWER if difference.value > 0 else FASTER
        else:
            alone = difference.interval(EQUIVALENCE)
            verdict = SAME if 1 / threshold < alone.low and alone.high < threshold else UNDECIDED
        detectable = smallest(difference, alpha)
        decisions.append(Decision(at.ratio, at.low, at.high, q, detectable, verdict))
    return decisions


def smallest(difference: Difference, alpha: float) -> float:
    """Return the slow-down that is found with the probability POWER by a test at the level `alpha`.

    It is the sum of both quantiles of Student's t distribution, an approximation by which the error
    of the scale is taken as that of a test without a difference.
    """
    from scipy.special import stdtrit

    quantiles = float(stdtrit(difference.df, 1 - alpha / 2) + stdtrit(difference.df, POWER))
    return math.exp(min(quantiles * difference.scale, 700.0))
