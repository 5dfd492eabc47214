"""The statistics of comparisons: adjusted p-values and intervals, smallest changes, measurements in turns."""

from __future__ import annotations

import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks import compare_errors_analysis
from scripts.lib.comparison import decisions, paired
from scripts.lib.comparison.decisions import FASTER, SAME, SLOWER, UNDECIDED
from scripts.lib.iree.turns import Block, Turns
from scripts.lib.report import ratio
from scripts.lib.report.ratio import Difference, LogLatency

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
    for q, decision in zip(adjusted, decisions.decide(found, rate, 1.05), strict=True):
        assert decision.q == pytest.approx(q)
        excludes = decision.interval.low > 1 or decision.interval.high < 1
        assert (decision.verdict in (SLOWER, FASTER)) == (q <= rate)
        if abs(q - rate) > 1e-9:
            assert excludes == (q <= rate)


def test_under_no_difference_few_comparisons_have_any_discovery():
    draw = np.random.default_rng(7)
    wrong = 0
    for _ in range(200):
        found = [Difference(float(t) * 0.02, 0.02, 9.0) for t in draw.standard_t(9, 40)]
        wrong += any(one.verdict in (SLOWER, FASTER) for one in decisions.decide(found, 0.05, 1.05))
    assert 1 <= wrong <= 20  # of 200 comparisons; 5 % are expected


def test_the_smallest_change_is_found_with_the_stated_probability():
    draw = np.random.default_rng(8)
    one = Difference(0.0, 0.02, 15.0)
    size = math.log(decisions.smallest(one, 0.05))
    samples = draw.normal(size, 0.02 * 4, (4000, 16))
    found = stats.ttest_1samp(samples, 0, axis=1).pvalue <= 0.05
    assert np.mean(found) == pytest.approx(decisions.POWER, abs=0.03)


def test_equality_is_only_claimed_within_the_threshold():
    tight, wide = Difference(0.001, 0.002, 20.0), Difference(0.001, 0.05, 20.0)
    verdicts = [one.verdict for one in decisions.decide([tight, wide], 0.05, 1.05)]
    assert verdicts == [SAME, UNDECIDED]


def test_the_mean_of_pairs_is_as_before_for_equal_weights():
    pairs = [(LogLatency(1.0, 0.01, 5.0), LogLatency(0.9, 0.02, 5.0))] * 2
    alone, both = ratio.mean_ratio(pairs[:1]), ratio.mean_ratio(pairs)
    assert both.ratio == pytest.approx(alone.ratio)
    assert math.log(both.high) - 0.1 < math.log(alone.high) - 0.1


def in_turns(ratios, drift=0.0):
    """Turns of two modules; the machine becomes slower from turn to turn."""
    blocks = []
    for turn, value in enumerate(ratios):
        speed = math.exp(drift * turn)
        blocks.append(Block(turn, "a", 0.0, (speed, speed * 1.2, speed * 0.9), 0.0))
        slower = speed * math.exp(value)
        blocks.append(Block(turn, "b", 0.0, (slower * 1.3, slower, slower * 0.8), 0.0))
    return Turns(("a", "b"), tuple(blocks))


def verdict(turns: Turns, before: str, after: str, threshold: float) -> str:
    """What is said of one module alone."""
    of = paired.estimate(paired.log_ratios(turns, before, after))
    return decisions.decide([ratio.difference(of.value, [of])], 0.05, threshold)[0].verdict


def test_drift_of_the_machine_cancels_in_turns():
    found = paired.log_ratios(in_turns([0.1] * 8, drift=0.2), "a", "b")
    assert found == pytest.approx([0.1] * 8)
    assert verdict(in_turns([0.1] * 8, drift=0.2), "a", "b", 1.05) == SLOWER
    assert verdict(in_turns([0.1] * 8), "b", "a", 1.05) == FASTER
    assert verdict(in_turns([0.0] * 8), "a", "b", 1.05) == SAME


def test_a_turn_that_is_not_complete_does_not_count():
    turns = in_turns([0.1] * 7)
    cut = Turns(turns.sides, turns.blocks[:-1])
    assert len(paired.log_ratios(cut, "a", "b")) == 6
    with pytest.raises(ValueError, match="5 turns; expected at least 6"):
        paired.estimate([0.1] * 5)


@given(st.lists(st.floats(-0.5, 0.5), min_size=6, max_size=9))
def test_without_trimming_the_estimate_is_that_of_a_paired_t_test(ratios):
    found = paired.estimate(ratios)
    assert found.value == pytest.approx(statistics.fmean(ratios), abs=1e-12)
    if statistics.variance(ratios) > paired.FLOOR:
        expected = stats.ttest_1samp(ratios, 0).pvalue
        assert ratio.difference(found.value, [found]).p_value == pytest.approx(expected, rel=1e-6, abs=1e-12)  # fmt: skip


@given(st.lists(st.floats(-0.5, 0.5), min_size=10, max_size=40))
def test_the_estimate_is_scipy_s_trimmed_mean(ratios):
    found = paired.estimate(ratios)
    assert found.value == pytest.approx(stats.trim_mean(ratios, paired.TRIMMED), abs=1e-12)
    assert found.df == len(ratios) - 2 * int(paired.TRIMMED * len(ratios)) - 1


def test_intervals_of_turns_cover_the_truth_as_often_as_they_say():
    draw = np.random.default_rng(9)
    covered = 0
    for _ in range(2000):
        one = paired.estimate(draw.normal(0.0, 0.03, 16))
        interval = ratio.difference(one.value, [one]).interval(0.9)
        covered += interval.low < 1 < interval.high
    assert covered / 2000 == pytest.approx(0.9, abs=0.02)


def test_one_disturbed_turn_does_not_hide_a_slow_down():
    ratios = [0.05, 0.051, 0.049] * 5
    assert verdict(in_turns([*ratios, 1.5]), "a", "b", 1.01) == SLOWER
    assert verdict(in_turns([*ratios, -1.5]), "a", "b", 1.01) == SLOWER


def test_the_error_rates_of_a_record_are_counted(tmp_path):
    draw = np.random.default_rng(5)
    taken = []
    for batch in range(4):
        for kind, size in (("A", 0.0), ("A", 0.0), ("B10", 0.1)):
            values = in_turns(draw.normal(size, 0.01, 16))
            blocks = [vars(one) | {"side": {"a": "before", "b": "after"}[one.side]} for one in values.blocks]  # fmt: skip
            turns = {"sides": ["before", "after"], "blocks": blocks}
            taken.append({"batch": batch, "condition": "c", "cell": "x", "kind": kind, "turns": turns})  # fmt: skip
    path = tmp_path / "errors.json"
    path.write_text(json.dumps({"taken": taken}))
    found = compare_errors_analysis.counted([path])
    equal, slower = found["c", "A"], found["c", "B10"]
    assert (len(equal.verdicts), len(slower.verdicts)) == (8, 4)
    assert slower.verdicts == [SLOWER] * 4
    line = compare_errors_analysis.line("B10", slower)
    assert line[1:3] == ["4", "4 (100.0%)"]
    assert line[4] == "47.3%"  # 0.05 ** (1 / 4): Clopper and Pearson for all of 4


def test_the_modules_of_a_run_are_compared_with_themselves(tmp_path):
    values = in_turns(np.full(16, 0.4))  # b is slower by half than a, and each as fast as itself
    path = tmp_path / "turns/m/f/t/turns.json"
    path.parent.mkdir(parents=True)
    values.write(path)
    absent = tmp_path / "turns/m/f/gpu/turns.json"
    absent.parent.mkdir()
    absent.write_text('{"sides": [], "blocks": []}')
    own = compare_errors_analysis.with_itself(values, "a")
    assert [one.side for one in own.blocks[:4]] == ["before", "after", "after", "before"]
    assert (len(own.blocks), own.blocks[-1].turn) == (16, 7)
    found = compare_errors_analysis.counted_turns([tmp_path])
    assert list(found) == [("a", "A"), ("b", "A")]
    for counts in found.values():
        assert counts.values == [pytest.approx(0.0, abs=1e-12)]
        assert counts.verdicts == ["same"]
