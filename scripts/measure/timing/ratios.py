"""Ratios of latencies that were timed in turns, with their intervals.

A process of a member is summarised by the time of a call that nothing disturbed: the 5 % quantile of its calls. Noise
only adds time, so a low quantile repeats where means and medians do not (Chen and Revels 2016, "Robust benchmarking in
noisy environments"). One generation of a group gives one value per member, and the ratio of two of them compares the
same seconds. Over the generations, the logarithms of the ratios are independent, and their mean has Student's t
distribution. docs/timing_errors.md has the measured error rates.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

UNDISTURBED = 0.05
"""The quantile of the calls of a process that represents it."""
CONFIDENCE = 0.99
"""The level of an interval at one look at a group. docs/timing_errors.md says how often intervals are wrong with all looks."""
LEAST = 5
"""The generations that an interval needs, and so a ratio: of fewer, what the noise of the group adds (`of_logs`) would decide alone."""
DISTURBED = 1.15
"""How much slower than the second fastest a generation may be, to count (`counted`)."""
PRIOR = 4
"""The degrees of freedom for which the noise of a group counts in the interval of a ratio (`of_logs`)."""
SAME = 1.05
"""Two latencies are the same if the interval of their ratio is within 1 / SAME and SAME."""
KNOWN = 1.5
"""A ratio or a latency is not known if its interval reaches further than by this factor to both sides: it is shown as `unknown`, and decides
nothing."""
CLOSE = 1.25
"""Two latencies are close if the interval of their ratio contains 1 and reaches no further than by this factor to both sides of
the ratio. A wider one says nothing about them."""

FASTER, SLOWER, ALIKE, UNDECIDED = "faster", "slower", "same", "undecided"
VERDICTS = (FASTER, SLOWER, ALIKE, UNDECIDED)


@dataclass(frozen=True)
class Interval:
    """A ratio and the ends of its interval."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval of the logarithm: 0.05 is ±5 %."""
        return math.log(self.high / self.low) / 2

    @property
    def is_known(self) -> bool:
        """Whether the interval is narrow enough for its ratio to be a number."""
        return self.half_width <= math.log(KNOWN)

    @property
    def is_telling(self) -> bool:
        """Whether it says which of two latencies is lower, or that they are close."""
        return self.low > 1 or self.high < 1 or self.half_width <= math.log(CLOSE)

    @property
    def verdict(self) -> str:
        """What a speed-up with this interval says: one of VERDICTS."""
        if not self.is_known:
            return UNDECIDED
        if self.low > 1:
            return FASTER
        if self.high < 1:
            return SLOWER
        return ALIKE if self.low >= 1 / SAME and self.high <= SAME else UNDECIDED


@dataclass(frozen=True)
class Difference:
    """The logarithm of a ratio. Its error, divided by `scale`, has Student's t distribution with `df` degrees of freedom."""

    value: float
    scale: float
    df: float

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """The ratio with its interval."""
        half = quantile(self.df, confidence) * self.scale
        return Interval(*(math.exp(self.value + off) for off in (0.0, -half, half)))

    @property
    def p_value(self) -> float:
        """The probability of a difference of this size or larger if there is none (two-sided)."""
        from scipy.special import stdtr

        if not self.scale:
            return 1.0 if not self.value else 0.0
        return float(2 * stdtr(self.df, -abs(self.value) / self.scale))


def undisturbed(each_s: Sequence[float]) -> float:
    """The 5 % quantile of the calls of a process; of fewer than 20 calls, the fastest."""
    return sorted(each_s)[max(0, math.ceil(UNDISTURBED * len(each_s)) - 1)]


def log_mean(values: Sequence[float]) -> float:
    """The mean of the logarithms."""
    return statistics.fmean(map(math.log, values))


def noise(values: Values) -> float | None:
    """How much the logarithm of a latency typically varies from generation to generation, beside what all members of a group
    have in common: a standard deviation. `values`: the latencies of all members in the same generations. None for fewer than
    three members or LEAST generations.

    It is the median over the members, so that one whose processes differ much does not speak for the others. What they have
    in common in a generation is the median too.
    """
    rows = [list(map(math.log, row)) for row in values.values()]
    if len(rows) < 3 or len(rows[0]) < LEAST:
        return None
    means = [statistics.fmean(row) for row in rows]
    common = [
        statistics.median(row[at] - mean for row, mean in zip(rows, means, strict=True))
        for at in range(len(rows[0]))
    ]
    variances = [
        statistics.variance([value - shared for value, shared in zip(row, common, strict=True)])
        for row in rows
    ]
    from scipy.special import chdtri

    df = len(common) - 1
    # The median of a variance is below its mean: that of a chi-square with `df` degrees of freedom.
    return math.sqrt(statistics.median(variances) * df / float(chdtri(df, 0.5)))


def paired(
    base: Sequence[float], row: Sequence[float], noise: float | None = None
) -> Difference | None:
    """How many times faster `row` is than `base`, as a logarithm. Both have one latency per generation, and the same
    generations. None for fewer than LEAST generations. `noise`: that of the group, see `of_logs`."""
    return of_logs([math.log(a / b) for a, b in zip(base, row, strict=True)], noise)


def of_logs(logs: Sequence[float], noise: float | None = None) -> Difference | None:
    """The mean of independent logarithms of ratios. None for fewer than LEAST.

    A few of them say little about how much they vary, so the `noise` of a group, if it is given, counts as PRIOR further degrees
    of freedom (a moderated t statistic; Smyth 2004, "Linear models and empirical Bayes methods for assessing
    differential expression in microarray experiments"). But it does not reduce the variance of a ratio that varies more than
    nine of ten would with this noise: then one of the two programs is noisier than the others. docs/timing_errors.md has the error rates.
    """
    if len(logs) < LEAST:
        return None
    value, df = statistics.fmean(logs), len(logs) - 1
    # statistics.variance computes with fractions, which takes ten times as long.
    spread = math.fsum((log - value) ** 2 for log in logs) / df / len(logs)
    if noise:
        from scipy.special import chdtri

        typical = 2 * noise**2 / len(logs)
        if spread <= typical * float(chdtri(df, 0.1)) / df:
            spread = (PRIOR * typical + df * spread) / (PRIOR + df)
        df += PRIOR
    return Difference(value, math.sqrt(spread), df)


def combined(terms: Sequence[tuple[float, Difference]]) -> Difference:
    """The sum of independent differences, each multiplied by its factor.

    The degrees of freedom are those of Welch and Satterthwaite (Welch 1947, "The generalization of Student's problem when
    several different population variances are involved").
    """
    value = math.fsum(factor * difference.value for factor, difference in terms)
    parts = [((factor * difference.scale) ** 2, difference.df) for factor, difference in terms]
    variance = math.fsum(part for part, _ in parts)
    if not variance:
        return Difference(value, 0.0, min(df for _, df in parts))
    df = variance**2 / math.fsum(part**2 / df for part, df in parts)
    return Difference(value, math.sqrt(variance), df)


def mean(differences: Sequence[Difference]) -> Difference:
    """The mean of independent differences, such as the logarithm of a geometric mean of speed-ups."""
    return combined([(1 / len(differences), difference) for difference in differences])


def quantile(df: float, confidence: float) -> float:
    """The two-sided critical value of Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + confidence) / 2))


Values = Mapping[str, Sequence[float]]
"""The latencies of each member, one per generation."""


def counted(values: Values) -> list[int]:
    """The generations that count: those in which the machine was about as fast as in its fast ones.

    A generation is left out if the members were slower in it, on the average, than in the second fastest one by more than
    DISTURBED. What other guests of a machine do slows one program down more than another, so ratios of slow
    generations are others. The rule takes all members together, so it prefers none. LEAST generations count in any case.
    """
    members = [row for row in values.values() if row]
    if not members:
        return []
    levels = [statistics.fmean(map(math.log, column)) for column in zip(*members, strict=True)]
    ordered = sorted(range(len(levels)), key=levels.__getitem__)
    limit = levels[ordered[min(1, len(ordered) - 1)]] + math.log(DISTURBED)
    fast = [at for at in ordered if levels[at] <= limit]
    return sorted(fast if len(fast) >= LEAST else ordered[:LEAST])


def is_decided(
    values: Values, bases: Sequence[str], pairs: Collection[tuple[str, str]] = ()
) -> bool:
    """Whether the ratio of every member to each base, and that of each of the further `pairs` of members, is known to SAME, and
    says which is faster, or that they are the same."""
    kept = counted(values)
    if len(kept) < LEAST:
        return False
    kept_ms = {name: [row[at] for at in kept] for name, row in values.items()}
    common = noise(kept_ms)
    compared = [(base, name) for base in bases for name in kept_ms.keys() - {base}]
    for base, name in [*compared, *(pair for pair in pairs if kept_ms.keys() >= {*pair})]:
        difference = paired(kept_ms[base], kept_ms[name], common)
        interval = difference.interval() if difference else None
        if not interval or interval.verdict == UNDECIDED:
            return False
        if interval.half_width > math.log(SAME):
            return False
    return True


EQUIVALENCE = 1 - 2 * (1 - CONFIDENCE)
"""The level of the interval that has to lie within the threshold for ALIKE. A change at the threshold is then called ALIKE with a
probability of 1 - CONFIDENCE at most, since it can only be missed at one end (two one-sided tests; Schuirmann 1987, "A comparison of
the two one-sided tests procedure and the power approach for assessing the equivalence of average bioavailability")."""
POWER = 0.8
"""The probability with which the smallest detectable change would be found."""


@dataclass(frozen=True)
class Decision:
    """`ratio`: after / before, with its interval. `q`: the smallest rate of false discoveries at which the change is real.
    `smallest`: a slow-down by this factor would have been found with the probability POWER. `verdict`: SLOWER or FASTER if
    the interval excludes 1 and is not too wide (Interval.is_known); else ALIKE if the interval of this change alone, at the level EQUIVALENCE, is within the threshold on
    both sides, or UNDECIDED."""

    ratio: float
    low: float
    high: float
    q: float
    smallest: float
    verdict: str


def decide(differences: Sequence[Difference], rate: float, threshold: float) -> list[Decision]:
    """Which of several changes are real: the decision of each difference (logarithms of after / before).

    `rate`: of false discoveries. `threshold`: the ratio from which a change matters, above 1. The p-values of all changes are adjusted by
    Benjamini and Hochberg (1995, "Controlling the false discovery rate"). The intervals have the level that belongs to that: 1 - rate ×
    max(R, 1) / m, where R of m changes are real (Benjamini and Yekutieli 2005, "False discovery rate-adjusted multiple confidence
    intervals"). So an interval excludes 1 exactly for the changes that are real.
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
            verdict = ALIKE if 1 / threshold < alone.low and alone.high < threshold else UNDECIDED
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
