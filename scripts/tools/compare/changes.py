"""Change points and drift of a series, with a known rate of false alarms.

The logarithms of a series are described in one of three ways: one level, several levels (ruptures finds the
segmentation with the least squares for each number of changes: Truong, Oudre, Vayatis 2020, "Selective review of
offline change point detection methods"), or a line. Each description has the cost

    (n + df) · log(df · prior + RSS) + penalty · (number of changes, or 1 for a line)

and the one with the least cost is taken. `prior` is the variance of a point as its own measurement states it, which
counts as `df` observations (Smyth 2004, "Linear models and empirical Bayes methods for assessing differential
expression in microarray experiments"); RSS is the sum of the squared residuals. The penalty is calibrated by
simulation: of series without a change, ALARMS have another description than one level. `python -m
benchmarks.change_points` computes PENALTY and states how many changes and drifts are found.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from scripts.measure.timing.ratios import CONFIDENCE, Interval, quantile

LEAST = 4
"""Points that a series needs: a level has at least SHORTEST."""
SHORTEST = 2
MOST_CHANGES = 8
DF = 4.0
FLOOR = 0.02**2
"""Variance of a point (of the logarithm) whose measurement does not state one."""
ALARMS = 0.001
PENALTY = 18.0
"""Of a change. By simulation it is 16 to 19, without a trend, for series of 4 to 200 points."""


@dataclass(frozen=True)
class Change:
    """From the point `index` on, the level is another one: `ratio` times the level before, with its interval."""

    index: int
    ratio: Interval


@dataclass(frozen=True)
class Drift:
    """The value changes slowly: along the fitted line, the last point is `ratio` times the first one. `step`: the
    largest ratio of two neighbours on that line, which no comparison of two runs would show."""

    ratio: Interval
    step: float


@dataclass(frozen=True)
class Found:
    """What a series shows: changes, or a drift, or neither."""

    changes: tuple[Change, ...] = ()
    drift: Drift | None = None


def find(values: Sequence[float], variances: Sequence[float | None]) -> Found:
    """Return the changes or the drift of a series of positive values.

    `variances`: of the logarithm of each value as its measurement states it, or None. A series that is too short, or
    has a value that is not positive, shows nothing.
    """
    if len(values) < LEAST or min(values) <= 0:
        return Found()
    logs, count = [math.log(value) for value in values], len(values)
    stated = max(FLOOR / 16, statistics.fmean(FLOOR if v is None else v for v in variances))

    def half_of(left: float, parameters: int, per_point: float) -> float:
        """Half an interval; `per_point`: the variance of what it is of, as a multiple of that of a point."""
        df = DF + count - parameters
        return quantile(df, CONFIDENCE) * math.sqrt((DF * stated + left) / df * per_point)

    least, bounds = cost(rss(logs, [count]), count, stated), [count]
    for segments in segmentations(logs):
        ends = _carried(logs, segments)
        own = cost(rss(logs, ends), count, stated) + (len(ends) - 1) * PENALTY
        if own < least:
            least, bounds = own, ends
    slope, left = line(logs)
    if cost(left, count, stated) + PENALTY < least:
        # The variance of a fitted slope: that of a point, divided by the sum of the squared distances from the middle.
        half = half_of(left, 2, 12 / (count**3 - count))
        total = [math.exp((count - 1) * rise) for rise in (slope, slope - half, slope + half)]
        return Found(drift=Drift(Interval(*total), math.exp(slope)))
    changes = []
    for start, at, end in zip([0, *bounds], bounds, bounds[1:], strict=False):
        step = statistics.fmean(logs[at:end]) - statistics.fmean(logs[start:at])
        half = half_of(rss(logs, bounds), len(bounds), 1 / (at - start) + 1 / (end - at))
        ratio = Interval(*(math.exp(step + off) for off in (0.0, -half, half)))
        changes.append(Change(at, ratio))
    return Found(tuple(changes))


def cost(left: float, count: int, stated: float) -> float:
    """The cost of a description without its penalty. `left`: the sum of the squared residuals of `count` points.
    `stated`: the variance of a point, which counts as much as DF observations."""
    return (count + DF) * math.log(DF * stated + left)


def exact(values: Sequence[float]) -> Found:
    """Return the changes of a series without noise, such as a size: every difference is one."""
    changes = []
    for index, (before, after) in enumerate(pairwise(values), start=1):
        if before != after:
            ratio = after / before if before else math.inf
            changes.append(Change(index, Interval(ratio, ratio, ratio)))
    return Found(tuple(changes))


def segmentations(logs: Sequence[float]) -> list[list[int]]:
    """Return the ends of the segments with the least squares, for 1 to MOST_CHANGES changes."""
    import numpy as np
    import ruptures

    # The algorithm needs no scale, but loses digits where the mean is large compared with the differences.
    signal = np.asarray(logs, float).reshape(-1, 1)
    fitted = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(signal - signal.mean())
    most = min(MOST_CHANGES, len(logs) // SHORTEST - 1)
    return [fitted.predict(n_bkps=count) for count in range(most, 0, -1)][::-1]


def line(logs: Sequence[float]) -> tuple[float, float]:
    """Return the slope per point of the fitted line, and the sum of its squared residuals."""
    fitted = statistics.linear_regression(range(len(logs)), logs)
    left = sum((y - fitted.intercept - fitted.slope * x) ** 2 for x, y in enumerate(logs))
    return fitted.slope, left


def rss(logs: Sequence[float], bounds: Sequence[int]) -> float:
    """The sum of the squared distances from the means of the segments that end at `bounds`."""
    total, start = 0.0, 0
    for end in bounds:
        mean = statistics.fmean(logs[start:end])
        total += sum((value - mean) ** 2 for value in logs[start:end])
        start = end
    return total


def _carried(logs: Sequence[float], bounds: Sequence[int]) -> list[int]:
    """Return the bounds of those segments that most of their points carry.

    A single outlier moves the mean of a short segment. A change is kept if most points on both of its sides, and at
    least two, are nearer to the median of their own side.
    """
    kept = list(bounds)
    number = 0
    while number < len(kept) - 1:
        if _is_carried(logs, [0, *kept][number : number + 3]):
            number += 1
        else:
            del kept[number]
            number = 0
    return kept


def _is_carried(logs: Sequence[float], bounds: Sequence[int]) -> bool:
    """Whether most points of two segments, given by their three bounds, are nearer to the median of their own."""
    start, at, end = bounds
    sides = logs[start:at], logs[at:end]
    levels = [statistics.median(side) for side in sides]
    for side, own, other in zip(sides, levels, reversed(levels), strict=True):
        near = sum(abs(value - own) < abs(value - other) for value in side)
        if near < SHORTEST or 2 * near <= len(side):
            return False
    return True
