"""Changes and drifts of a series: what must be found, what must not, and which properties hold for every series."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.tools.compare import changes

NOISE = 0.02


def series(seed: int, levels: list[float], each: int) -> list[float]:
    """Milliseconds around levels, with `each` points per level."""
    rng = np.random.default_rng(seed)
    logs = [math.log(level) + rng.normal(0, NOISE) for level in levels for _ in range(each)]
    return [math.exp(one) for one in logs]


def find(values: list[float]) -> changes.Found:
    return changes.find(values, [NOISE**2] * len(values))


SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(3, 12), st.sampled_from([0.5, 0.8, 1.3, 2.0]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_large_change_is_found_where_it_is(seed, each, factor):
    found = find(series(seed, [100.0, 100.0 * factor], each))
    assert [one.index for one in found.changes] == [each]
    assert found.drift is None
    [change] = found.changes
    assert change.ratio.low < change.ratio.ratio < change.ratio.high
    assert change.ratio.ratio == pytest.approx(factor, rel=0.1)


@given(SEEDS, st.integers(3, 8))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_a_change_that_is_taken_back_is_two_changes(seed, each):
    found = find(series(seed, [100.0, 150.0, 100.0], each))
    assert [one.index for one in found.changes] == [each, 2 * each]


@given(SEEDS, st.floats(1e-3, 1e6))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_unit_of_the_values_does_not_matter(seed, scale):
    values = series(seed, [1.0, 1.25], 6)
    one, other = find(values), find([scale * value for value in values])
    assert [c.index for c in one.changes] == [c.index for c in other.changes]
    assert [c.ratio.ratio for c in one.changes] == pytest.approx([c.ratio.ratio for c in other.changes])  # fmt: skip


@given(SEEDS)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_same_changes_are_found_in_the_reversed_series(seed):
    values = series(seed, [1.0, 1.4, 0.9], 5)
    forward = [one.index for one in find(values).changes]
    backward = [len(values) - one.index for one in find(values[::-1]).changes]
    assert forward == sorted(backward)


@given(SEEDS, st.integers(5, 60), st.floats(1.1, 3.0), st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_one_outlier_is_not_a_change(seed, count, factor, data):
    values = series(seed, [100.0], count)
    values[data.draw(st.integers(0, count - 1))] *= factor
    assert find(values).changes == ()


def test_series_without_a_change_show_nothing():
    """The rate of false alarms is changes.ALARMS; of 300 series, two with a finding have a probability of 4 %, three of 0.4 %."""
    found = [find(series(seed, [100.0], count)) for seed in range(60) for count in (4, 6, 10, 20, 40)]  # fmt: skip
    assert sum(bool(one.changes or one.drift) for one in found) <= 3


@given(SEEDS, st.sampled_from([0.7, 1.3, 1.6]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_a_slow_drift_is_named_with_its_size(seed, factor):
    count = 30
    trend = [math.exp(math.log(factor) * at / (count - 1)) for at in range(count)]
    values = [a * b for a, b in zip(series(seed, [100.0], count), trend, strict=True)]
    found = find(values)
    assert found.drift is not None
    assert found.changes == ()
    assert found.drift.ratio.low < factor < found.drift.ratio.high or found.drift.ratio.ratio == pytest.approx(factor, rel=0.05)  # fmt: skip
    assert found.drift.step ** (count - 1) == pytest.approx(found.drift.ratio.ratio)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 9.0, 9.0], [0.0, 0.0, 1.0, 1.0, 1.0]])
def test_too_few_values_and_values_without_a_logarithm_show_nothing(values):
    assert find(values) == changes.Found()


def test_noise_that_the_measurements_do_not_state_is_seen_in_the_series():
    rng = np.random.default_rng(1)
    noisy = [100 * math.exp(rng.normal(0, 0.3)) for _ in range(30)]
    assert find(noisy) == changes.Found()


def test_each_difference_of_an_exact_value_is_a_change():
    found = changes.exact([10, 10, 12, 12, 0, 3])
    assert [(one.index, one.ratio.ratio) for one in found.changes] == [(2, 1.2), (4, 0.0), (5, math.inf)]  # fmt: skip
