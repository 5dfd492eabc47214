"""The statistics of comparisons: adjusted p-values and intervals, smallest changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import ALIKE, FASTER, SLOWER, UNDECIDED, Difference

DIFFERENCES = st.builds(
    Difference,
    value=st.floats(-2, 2),
    scale=st.floats(1e-3, 1),
    df=st.floats(4.5, 200),
)


@given(DIFFERENCES)
def test_p_value_and_interval_agree_with_student_s_t_distribution(one):
    assert one.p_value == pytest.approx(2 * stats.t.sf(abs(one.value) / one.scale, one.df), rel=1e-6, abs=1e-300)  # fmt: skip
    low, high = stats.t.interval(0.9, one.df, loc=one.value, scale=one.scale)
    found = one.interval(0.9)
    assert (math.log(found.low), math.log(found.high)) == (pytest.approx(low), pytest.approx(high))


@settings(max_examples=50, deadline=None)
@given(st.lists(DIFFERENCES, min_size=1, max_size=30), st.sampled_from([0.01, 0.05, 0.2]))
def test_intervals_exclude_1_exactly_for_the_discoveries_of_benjamini_and_hochberg(found, rate):
    adjusted = stats.false_discovery_control([one.p_value for one in found])
    for q, decision in zip(adjusted, ratios.decide(found, rate, 1.05), strict=True):
        assert decision.q == pytest.approx(q)
        excludes = decision.low > 1 or decision.high < 1
        is_known = math.sqrt(decision.high / decision.low) <= ratios.KNOWN
        if abs(math.sqrt(decision.high / decision.low) / ratios.KNOWN - 1) > 1e-9:
            assert (decision.verdict in (SLOWER, FASTER)) == (q <= rate and is_known)
        if abs(q - rate) > 1e-9:
            assert excludes == (q <= rate)


def test_under_no_difference_few_comparisons_have_any_discovery():
    draw = np.random.default_rng(7)
    wrong = 0
    for _ in range(200):
        found = [Difference(float(t) * 0.02, 0.02, 9.0) for t in draw.standard_t(9, 40)]
        wrong += any(one.verdict in (SLOWER, FASTER) for one in ratios.decide(found, 0.05, 1.05))
    assert 1 <= wrong <= 20  # of 200 comparisons; 5 % are expected


def test_the_smallest_change_is_found_with_the_stated_probability():
    draw = np.random.default_rng(8)
    one = Difference(0.0, 0.02, 15.0)
    size = math.log(ratios.smallest(one, 0.05))
    samples = draw.normal(size, 0.02 * 4, (4000, 16))
    found = stats.ttest_1samp(samples, 0, axis=1).pvalue <= 0.05
    assert np.mean(found) == pytest.approx(ratios.POWER, abs=0.03)


def test_equality_is_only_claimed_within_the_threshold():
    tight, wide = Difference(0.001, 0.002, 20.0), Difference(0.001, 0.05, 20.0)
    verdicts = [one.verdict for one in ratios.decide([tight, wide], 0.05, 1.05)]
    assert verdicts == [ALIKE, UNDECIDED]


def test_a_change_at_the_threshold_is_called_the_same_in_one_of_a_hundred_cases():
    draw = np.random.default_rng(9)
    differences = [
        Difference(math.log(1.05) + float(t) * 0.01, 0.01, 11.0) for t in draw.standard_t(11, 4000)
    ]
    verdicts = [ratios.decide([one], 0.01, 1.05)[0].verdict for one in differences]
    share = np.mean([verdict == ALIKE for verdict in verdicts])
    assert 0.006 < share < 0.015


def test_what_is_exactly_equal_is_the_same_and_would_show_any_change():
    [one, other] = ratios.decide([Difference(0.0, 0.0, 7.0), Difference(0.1, 0.0, 7.0)], 0.05, 1.05)  # fmt: skip
    assert one == ratios.Decision(1.0, 1.0, 1.0, q=1.0, smallest=1.0, verdict=ALIKE)
    assert other.verdict == SLOWER
