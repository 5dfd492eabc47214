"""ratios: latencies of processes, which generations count, ratios with their intervals, and when all is decided."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import ALIKE, FASTER, SLOWER, UNDECIDED, Difference, Interval

latencies = st.floats(1e-3, 1e4)
several = st.lists(latencies, min_size=3, max_size=12)


@st.composite
def members(draw, least=1):
    """The latencies of members in the same generations."""
    generations, count = draw(st.integers(least, 10)), draw(st.integers(1, 4))
    row = st.lists(latencies, min_size=generations, max_size=generations)
    return {f"m{number}": draw(row) for number in range(count)}


def pair_of(draw):
    count = draw(st.integers(ratios.LEAST, 12))
    row = st.lists(latencies, min_size=count, max_size=count)
    return draw(row), draw(row)


pairs = st.composite(pair_of)()


@given(st.lists(latencies, min_size=1, max_size=300))
def test_a_process_is_as_fast_as_its_call_at_five_percent(calls):
    found = ratios.undisturbed(calls)
    assert found in calls
    assert found == np.quantile(calls, 0.05, method="inverted_cdf")
    if len(calls) <= 20:
        assert found == min(calls)


def test_slow_calls_do_not_change_it():
    assert ratios.undisturbed([1.0] * 10 + [50.0] * 90) == 1.0


@given(pairs)
def test_a_ratio_has_students_interval_over_generations(pair):
    base, row = pair
    found = ratios.paired(base, row)
    logs = np.log(base) - np.log(row)
    assert found.value == pytest.approx(logs.mean(), abs=1e-9)
    interval = found.interval()
    assert interval.low <= interval.ratio <= interval.high
    if found.scale > 1e-9:
        low, high = stats.t.interval(0.99, len(base) - 1, logs.mean(), stats.sem(logs))
        assert math.log(interval.low) == pytest.approx(low, abs=1e-6)
        assert math.log(interval.high) == pytest.approx(high, abs=1e-6)
        assert interval.half_width == pytest.approx((high - low) / 2, abs=1e-6)
        assert found.p_value == pytest.approx(stats.ttest_1samp(logs, 0).pvalue, abs=1e-6)


def test_fewer_than_five_generations_have_no_interval():
    assert ratios.paired([1.0] * 4, [1.0] * 4) is None
    assert ratios.paired([1.0] * 5, [1.0] * 5) is not None
    assert ratios.paired([], []) is None


def test_members_of_other_generations_are_not_compared():
    with pytest.raises(ValueError, match="longer"):
        ratios.paired([1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize(("value", "p"), [(0.0, 1.0), (0.1, 0.0)])
def test_a_difference_without_noise_is_certain(value, p):
    assert Difference(value, 0.0, 3).p_value == p


def one_sample(logs) -> Difference:
    found = ratios.of_logs(list(logs))
    assert found is not None
    return found


@given(st.integers(0, 10_000))
def test_the_difference_of_two_samples_is_welchs(seed):
    draw = np.random.default_rng(seed)
    a, b = draw.normal(0, 1, draw.integers(5, 11)), draw.normal(0.3, 3, draw.integers(5, 11))
    found = ratios.combined([(1, one_sample(a)), (-1, one_sample(b))])
    welch = stats.ttest_ind(a, b, equal_var=False)
    assert found.df == pytest.approx(welch.df)
    assert found.p_value == pytest.approx(welch.pvalue)
    ends = welch.confidence_interval(0.99)
    interval = found.interval()
    assert (math.log(interval.low), math.log(interval.high)) == pytest.approx(tuple(ends))


@given(st.integers(0, 10_000))
def test_the_mean_of_differences_is_that_of_the_logarithms(seed):
    draw = np.random.default_rng(seed)
    parts = [one_sample(draw.normal(0.1, 0.01, 6)) for _ in range(3)]
    found = ratios.mean(parts)
    assert found.value == pytest.approx(statistics.fmean(one.value for one in parts))
    assert found.scale == pytest.approx(math.hypot(*(one.scale for one in parts)) / 3)
    assert min(one.df for one in parts) <= found.df <= sum(one.df for one in parts)
    assert ratios.mean(parts[:1]) == Difference(
        pytest.approx(parts[0].value), pytest.approx(parts[0].scale), pytest.approx(5)
    )


def test_intervals_are_wrong_as_often_as_they_say():
    draw, wrong, trials = np.random.default_rng(1), 0, 3000
    for _ in range(trials):
        base, row = np.exp(draw.normal(0, 0.03, (2, 6)))
        found = ratios.paired(base, 0.9 * row).interval()
        wrong += not found.low <= 1 / 0.9 <= found.high
    assert 0.004 < wrong / trials < 0.017


def test_intervals_with_the_noise_of_a_group_are_wrong_as_often_as_they_say_and_narrower():
    draw, wrong, widths, trials = np.random.default_rng(2), 0, [], 2000
    for _ in range(trials):
        shared = draw.normal(0, 0.2, 5)  # what all processes of a generation have in common
        values = {n: np.exp(shared + draw.normal(0, 0.03, 5)) for n in "abcdef"}
        plain = ratios.paired(values["a"], values["b"]).interval()
        found = ratios.paired(values["a"], values["b"], ratios.noise(values)).interval()
        wrong += not found.low <= 1 <= found.high
        widths.append(found.half_width / plain.half_width)
    assert 0.003 < wrong / trials < 0.02
    assert statistics.median(widths) < 0.85


def test_a_noisy_member_widens_its_own_ratios_and_not_those_of_others():
    draw, wrong, widths, trials = np.random.default_rng(3), {"a": 0, "noisy": 0}, [], 1500
    for _ in range(trials):
        shared = draw.normal(0, 0.2, 8)
        values = {n: np.exp(shared + draw.normal(0, 0.01, 8)) for n in "abcde"}
        quiet = ratios.noise(values)
        values["noisy"] = np.exp(shared + draw.normal(0, 0.1, 8))
        noise = ratios.noise(values)
        for name in wrong:
            found = ratios.paired(values["b"], values[name], noise).interval()
            wrong[name] += not found.low <= 1 <= found.high
        widths.append(noise / quiet)
    assert max(wrong.values()) / trials < 0.025
    assert statistics.median(widths) < 1.3


@given(st.integers(0, 10_000))
def test_the_noise_of_a_group_has_neither_what_members_nor_what_generations_have_in_common(seed):
    draw = np.random.default_rng(seed)
    logs = draw.normal(0, 0.05, (5, 6))
    found = ratios.noise({str(n): np.exp(row) for n, row in enumerate(logs)})
    moved = logs + draw.normal(0, 1, (5, 1)) + draw.normal(0, 1, (1, 6))
    assert ratios.noise({str(n): np.exp(row) for n, row in enumerate(moved)}) == pytest.approx(
        found
    )
    assert 0.01 < found < 0.12


def test_two_members_have_no_noise_beside_their_own_ratio():
    assert ratios.noise({"a": [1.0, 2.0, 3.0, 2.0, 1.0], "b": [1.0, 2.0, 3.5, 2.0, 1.0]}) is None
    assert ratios.noise({}) is None


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.001, 1.2, FASTER),
        (1.001, 1.002, FASTER),
        (0.5, 0.999, SLOWER),
        (0.96, 1.04, ALIKE),
        (1 / 1.05, 1.05, ALIKE),
        (0.94, 1.04, UNDECIDED),
        (0.96, 1.06, UNDECIDED),
        (0.5, 2.0, UNDECIDED),
        (2.0, 4.4, FASTER),
        (2.0, 4.6, UNDECIDED),  # wider than ±50 %
        (0.1, 0.4, UNDECIDED),
    ],
)
def test_a_verdict_is_where_the_interval_lies(low, high, verdict):
    assert Interval(math.sqrt(low * high), low, high).verdict == verdict


@given(members())
def test_generations_that_count_are_no_slower_than_those_that_do_not(values):
    found = ratios.counted(values)
    count = len(values["m0"])
    assert found == sorted(set(found))
    assert min(ratios.LEAST, count) <= len(found) <= count
    levels = [sum(math.log(row[at]) for row in values.values()) for at in range(count)]
    others = [levels[at] for at in range(count) if at not in found]
    assert not others or max(levels[at] for at in found) <= min(others)


@given(members(least=4), st.randoms(use_true_random=False))
def test_they_are_the_same_whichever_member_is_which(values, draw):
    names, rows = list(values), list(values.values())
    draw.shuffle(rows)
    draw.shuffle(names)
    assert ratios.counted(dict(zip(names, rows, strict=True))) == ratios.counted(values)


@given(members(least=4), st.floats(0.01, 100))
def test_they_are_the_same_however_slow_a_member_is(values, factor):
    scaled = values | {"m0": [factor * ms for ms in values["m0"]]}
    of = [sum(map(math.log, column)) for column in zip(*values.values(), strict=True)]
    gaps = np.abs(np.subtract.outer(of, of) - math.log(1.15) * len(values))
    if gaps.min() > 1e-9 and len(set(np.round(of, 9))) == len(of):  # no ties, nor one at the limit
        assert ratios.counted(scaled) == ratios.counted(values)


def test_slow_generations_are_left_out_for_all_members_together():
    quick, slow = [1.0, 1.0, 1.1, 2.0, 1.0, 1.1], [10.0, 10.1, 11.0, 12.0, 10.0, 10.0]
    assert ratios.counted({"a": quick, "b": slow}) == [0, 1, 2, 4, 5]
    # One that is slower in a generation in which the other is faster is not left out.
    assert ratios.counted({"a": [1.0, 1.0, 1.3, 1.0], "b": [1.0, 1.0, 0.8, 1.0]}) == [0, 1, 2, 3]
    # A single fast one makes none of the others slow, and five count in any case.
    assert ratios.counted({"a": [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]}) == [0, 1, 2, 3, 4, 5]
    assert ratios.counted({"a": [1.0, 1.0, 5.0, 9.0, 3.0, 4.0]}) == [0, 1, 2, 4, 5]


def test_no_members_have_no_generations():
    assert ratios.counted({}) == []
    assert ratios.counted({"a": []}) == []


def near(ms: float, *steps: int) -> list[float]:
    """Latencies that differ by some thousandths."""
    return [ms * (1 + step / 1000) for step in steps]


BASE = near(10, 0, 1, 2, 1, 0)


@pytest.mark.parametrize(
    ("row", "decided"),
    [
        (near(5, 1, 0, 0, 1), False),  # four generations
        (near(5, 1, 0, 0, 1, 2), True),
        (near(10, 1, 0, 0, 1, 2), True),  # the same
        (near(10.2, 1, 0, 0, 1, 2), True),  # 2 % slower, which is seen
        ([10.0, 10.9, 9.2, 10.4, 9.8], False),  # wide
        ([5.0, 5.9, 4.3, 5.4, 4.6], False),  # faster, but it is not known by how much
    ],
)
def test_it_is_decided_once_each_ratio_is_known_and_says_something(row, decided):
    values = {"base": BASE[: len(row)], "row": row}
    assert ratios.is_decided(values, ["base"]) is decided


def test_every_member_is_compared_with_every_base():
    wide = [10.0, 10.9, 9.2, 10.4, 9.8]
    values = {"base": BASE, "row": near(5, 1, 0, 0, 1, 2), "wide": wide}
    assert ratios.is_decided({"base": BASE, "row": values["row"]}, ["base", "row"])
    assert not ratios.is_decided(values, ["base"])
    assert not ratios.is_decided(values, ["row", "base"])
    assert ratios.is_decided(values, [])
    narrow = {name: values[name] for name in ("base", "row")} | {"same": near(5, 0, 1, 2, 1, 0)}
    assert ratios.is_decided(narrow, ["base"], [("row", "same"), ("row", "has left")])
    assert not ratios.is_decided({**narrow, "wide": wide}, [], [("row", "wide")])
    for at in range(6):
        rows = {f"row{number}": values["row"] for number in range(6)} | {f"row{at}": wide}
        assert not ratios.is_decided({"base": BASE, **rows}, ["base"])
