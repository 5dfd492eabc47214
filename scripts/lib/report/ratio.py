"""The ratio of two latencies with its confidence interval.

A round is summarised by the median of the logarithms of its repetitions, a row by the mean of its
rounds. Two rounds alone do not give the variance of a round (one degree of freedom). It is estimated
as in limma, from two sources: a prior, which is the variance that such rounds have in general, with
`df` degrees of freedom, and the variance between the two rounds of this row, with one (Smyth 2004,
"Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments", the posterior variance). The prior depends on the observed state of the machine, as
limma's trend depends on the expression (Law et al. 2014, "voom"). The error of a row then has a t
distribution. The error of the difference of two rows is approximated by another t distribution (Patil
1965, "Approximation to the Behrens-Fisher distributions"; Box and Tiao 1973, section 2.5.3).

`python -m benchmarks.agreement` tests this by comparing cells with themselves, and fits the prior.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MIN_REPETITIONS = 6
MIN_ROUNDS = 2
"""Minimum repetitions and rounds of a row for an interval."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Round:
    """Milliseconds of each repetition, and the observed state of the machine: the share of the cores used
    by others (processes, and other guests of the hypervisor), and the seconds of each calibration."""

    values_ms: Sequence[float]
    others: float = 0.0
    calibration_s: Sequence[float] = ()

    @property
    def centre(self) -> float:
        """The median of the logarithms of its repetitions."""
        return statistics.median(map(math.log, self.values_ms))

    @property
    def within(self) -> float:
        """The variance of the mean of its repetitions (as logarithms), estimated from their spread."""
        if len(self.values_ms) < 2:
            return 0.0
        return statistics.variance(map(math.log, self.values_ms)) / len(self.values_ms)

    @property
    def contention(self) -> float:
        """The logarithm of the factor by which work on all cores takes longer if other processes use the
        share `others` of them."""
        return -math.log(1 - min(self.others, 0.95))


Row = Sequence[Round]


@dataclass(frozen=True)
class Noise:
    """The prior of the variance of a round (of logarithms), with `df` > 3 degrees of freedom. It is `floor`
    plus the three values of `was_seen`, each multiplied by the coefficient of its name."""

    floor: float
    within: float
    contention: float
    drift: float
    df: float

    def variance(self, row: Row) -> float:
        """The prior variance of the rounds of a row."""
        within, contention, drift = was_seen(row)
        return self.floor + self.within * within + self.contention * contention + self.drift * drift


NOISE = Noise(floor=0.02**2, within=5.0, contention=0.3, drift=0.01, df=4.0)
"""The result of `python -m benchmarks.agreement fit`."""


def was_seen(row: Row) -> tuple[float, float, float]:
    """How much the speed of the machine varied: the mean `within` of the rounds, the mean square of their
    `contention`, and the squared logarithm of the ratio of the slowest and the fastest calibration (0
    without calibrations)."""
    calibrations = [math.log(seconds) for one in row for seconds in one.calibration_s]
    drift = max(calibrations) - min(calibrations) if calibrations else 0.0
    return (
        statistics.fmean(one.within for one in row),
        statistics.fmean(one.contention**2 for one in row),
        drift**2,
    )


@dataclass(frozen=True)
class LogLatency:
    """The logarithm of a row's latency, its variance, and the degrees of freedom of the variance."""

    value: float
    variance: float
    df: float


@dataclass(frozen=True)
class Interval:
    """A ratio and its interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """The logarithm of a ratio. Its error, divided by `scale`, has Student's t distribution with `df` degrees of
    freedom."""

    value: float
    scale: float
    df: float

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Return the ratio with its interval."""
        half = quantile(self.df, confidence) * self.scale
        return Interval(*(math.exp(self.value + off) for off in (0.0, -half, half)))

    @property
    def p_value(self) -> float:
        """The probability of a difference of this size or larger if there is none (two-sided)."""
        from scipy.special import stdtr

        return float(2 * stdtr(self.df, -abs(self.value) / self.scale))


def why_none(row: Row) -> str:
    """Why a row with these rounds has no interval; "" if it has one."""
    count = sum(len(one.values_ms) for one in row)
    if len(row) >= MIN_ROUNDS and count >= MIN_REPETITIONS:
        return ""
    rounds = "1 round" if len(row) == 1 else f"{len(row)} rounds"
    return f"{count} repetitions in {rounds}; an interval needs {MIN_REPETITIONS} in {MIN_ROUNDS}"


def centre(row: Row) -> float:
    """The logarithm of a row's latency: the mean over its rounds."""
    return statistics.fmean(one.centre for one in row)


def log_latency(row: Row, noise: Noise = NOISE) -> LogLatency:
    """The latency of a row with at least two rounds, with its variance."""
    between = statistics.variance([one.centre for one in row])
    own_df = len(row) - 1
    variance = (noise.df * noise.variance(row) + own_df * between) / (noise.df + own_df)
    return LogLatency(centre(row), variance / len(row), noise.df + own_df)


def point(base: Row, row: Row) -> float:
    """How many times faster `row` is than `base`, without an interval."""
    return math.exp(centre(base) - centre(row))


def ratio(base: LogLatency, row: LogLatency, confidence: float = CONFIDENCE) -> Interval:
    """How many times faster `row` is than `base`."""
    return mean_ratio([(base, row)], confidence)


def mean_ratio(
    pairs: Sequence[tuple[LogLatency, LogLatency]], confidence: float = CONFIDENCE
) -> Interval:
    """Return the geometric mean, over pairs (base, row), of the speed-ups of the rows.

    No row may be in two pairs, because their errors are assumed to be independent. The interval
    covers only the errors of these measurements. It is not valid for other models.
    """
    mean = statistics.fmean(base.value - row.value for base, row in pairs)
    terms = [scaled(one, 1 / len(pairs)) for pair in pairs for one in pair]
    return difference(mean, terms).interval(confidence)


def scaled(one: LogLatency, factor: float) -> LogLatency:
    """Return an estimate multiplied by a factor."""
    return LogLatency(one.value * factor, one.variance * factor**2, one.df)


def difference(value: float, terms: Sequence[LogLatency]) -> Difference:
    """Return the logarithm of a ratio that is a sum of one or more independent terms.

    Their errors have the variances and degrees of freedom of `terms`, of which each must have more than 4.
    """
    return Difference(value, *_of_sum(terms))


def ends_ms(row: LogLatency, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of a row's latency, in milliseconds.

    It is Student's t interval of the logarithm, with the row's degrees of freedom.
    """
    half = quantile(row.df, confidence) * math.sqrt(row.variance)
    return math.exp(row.value - half), math.exp(row.value + half)


def quantile(df: float, confidence: float) -> float:
    """Return the two-sided critical value of Student's t distribution for a confidence level."""
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + confidence) / 2))


def _of_sum(parts: Sequence[LogLatency]) -> tuple[float, float]:
    """Scale and degrees of freedom of the t distribution with the same variance and fourth moment as the
    sum (or difference) of independent parts. Patil (1965) has the case of two. All must have more
    than 4 degrees of freedom."""
    variance = sum(each.variance for each in parts)
    second = fourth = 0.0
    for each in parts:
        part, spread = each.variance / variance, each.df / (each.df - 2)
        second += spread * part
        fourth += (spread * part) ** 2 / (each.df - 4)
    df = 4 + second**2 / fourth
    return math.sqrt(variance * second * (df - 2) / df), df


def of_latency(values_ms: Sequence[float], rounds: Sequence[dict]) -> list[Round]:
    """The rounds of a record, from its `latency.values_ms` and `latency.rounds`."""
    found, at = [], 0
    for one in rounds:
        values = values_ms[at : at + one["repetitions"]]
        pairs = zip(one["compute_s"], one["memory_s"], strict=True)
        found.append(
            Round(values, one["foreign"] + one["steal"], [(a * b) ** 0.5 for a, b in pairs])
        )
        at += one["repetitions"]
    return found


def of_sum(value: float, terms: Sequence[LogLatency], confidence: float = CONFIDENCE) -> Interval:
    """Return the ratio whose logarithm is `value`, with its interval.

    `value` is a sum of one or more independent terms, whose errors have the variances and degrees
    of freedom of `terms`.
    """
    return difference(value, terms).interval(confidence)
