"""The ratio of two latencies with its interval, by a model of how rows differ from round to round.

A round is summarised by the median of the logarithms of its repetitions, a row by the mean of its
rounds. How far a round may be off is not known from two rounds alone (one degree of freedom). So
it is estimated as in limma: the variance that rounds like these have in general, the prior, with
`df` degrees of freedom, and the variance between this row's own two rounds, with one. The prior
grows with the variance within the row's rounds, which shows how restless the machine was (Smyth
2004, "Linear models and empirical Bayes methods for assessing differential expression", equation
for the posterior variance; Law et al. 2014 for a prior that follows a trend). The difference of two
rows then has a t distribution, with Welch's and Satterthwaite's degrees of freedom.

`python -m benchmarks.agreement` compares cells with themselves by it, and fits the prior.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MIN_REPETITIONS = 6
MIN_ROUNDS = 2
"""Of a row, for an interval: fewer repetitions or rounds say too little of what they miss."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Noise:
    """The prior of the variance of a round: `floor` + `within` × the variance of a mean of its
    repetitions, of logarithms, with `df` degrees of freedom."""

    floor: float
    within: float
    df: float


NOISE = Noise(floor=0.01**2, within=1.0, df=4.0)
"""As `python -m benchmarks.agreement fit` finds it."""


@dataclass(frozen=True)
class LogLatency:
    """The logarithm of a row's latency, the variance of that, and its degrees of freedom."""

    value: float
    variance: float
    df: float


@dataclass(frozen=True)
class Interval:
    """A ratio and its interval."""

    ratio: float
    low: float
    high: float


def why_none(rounds: Sequence[Sequence[float]]) -> str:
    """Why a row of these rounds has no interval; "" where it has one."""
    count = sum(map(len, rounds))
    if len(rounds) >= MIN_ROUNDS and count >= MIN_REPETITIONS:
        return ""
    return (
        f"{count} repetitions in {len(rounds)} rounds; an interval needs {MIN_REPETITIONS} "
        f"in {MIN_ROUNDS}"
    )


def centre(rounds: Sequence[Sequence[float]]) -> float:
    """The logarithm of a row's latency: the mean over its rounds of the median of each."""
    return statistics.fmean(statistics.median(map(math.log, values)) for values in rounds)


def log_latency(rounds: Sequence[Sequence[float]], noise: Noise = NOISE) -> LogLatency:
    """What the rounds of a row say of its latency; each holds milliseconds, one value a repetition.

    Two rounds or more, of one repetition or more each.
    """
    centres = [centre([values]) for values in rounds]
    between = statistics.variance(centres)
    own_df = len(rounds) - 1
    prior = noise.floor + noise.within * spread_within(rounds)
    variance = (noise.df * prior + own_df * between) / (noise.df + own_df)
    return LogLatency(statistics.fmean(centres), variance / len(rounds), noise.df + own_df)


def spread_within(rounds: Sequence[Sequence[float]]) -> float:
    """The variance of the mean of a round's repetitions by their spread in it, of logarithms; the
    mean over the rounds that have two repetitions or more, 0 without one."""
    found = [
        statistics.variance(map(math.log, values)) / len(values)
        for values in rounds
        if len(values) > 1
    ]
    return statistics.fmean(found) if found else 0.0


def point(base: Sequence[Sequence[float]], row: Sequence[Sequence[float]]) -> float:
    """How many times faster the rounds of `row` are than those of `base`, without an interval."""
    return math.exp(centre(base) - centre(row))


def ratio(base: LogLatency, row: LogLatency, confidence: float = CONFIDENCE) -> Interval:
    """How many times faster `row` is than `base`."""
    from scipy.special import stdtrit

    variance = base.variance + row.variance
    df = variance**2 / (base.variance**2 / base.df + row.variance**2 / row.df)
    half = float(stdtrit(df, (1 + confidence) / 2)) * math.sqrt(variance)
    difference = base.value - row.value
    return Interval(*(math.exp(difference + off) for off in (0.0, -half, half)))
