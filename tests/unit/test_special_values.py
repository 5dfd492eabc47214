"""Wrong results that torch's `same` accepts: special values, and integers within the tolerance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scripts.measure.verify import verify

NAN, INF = np.nan, np.inf
F32 = np.float32


def settle(got, want, fp64=None):
    wide = None if fp64 is None else [np.asarray(fp64, np.float64)]
    return verify.settle_special_values([np.asarray(got)], [np.asarray(want)], wide, ["logits"])


def problems(got, want, fp64=None):
    return settle(got, want, fp64)[0]


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ([0.0, 999.0], [-INF, 2.0]),
        ([INF, 2.0], [-INF, 2.0]),
        ([NAN, 2.0], [INF, 2.0]),
        ([0.0, 2.0], [NAN, 2.0]),
    ],
)
def test_a_special_value_must_be_the_same_one(got, want):
    (problem,) = problems(np.array(got, F32), np.array(want, F32), np.array(want))
    assert problem.startswith("logits: 1 of 2 values are not the NaN or infinity of golden")
    assert "first at [0]" in problem


def test_the_same_special_values_are_fine():
    values = np.array([NAN, INF, -INF, 1.0], F32)
    assert problems(values, values, values) == []
    assert problems(values, values) == []


@pytest.mark.parametrize("value", [INF, NAN])
def test_where_float64_is_finite_it_is_what_is_right_or_goldens_own_overflow(value):
    want, wide = np.array([value, 1.0], np.float16), [3.0, 1.0]
    for got in ([3.0, 1.0], [value, 1.0]):
        found, (a,), (b,), _ = settle(np.array(got, np.float16), want, wide)
        assert found == []
        assert a.tolist() == b.tolist()
    found, (a,), (b,), _ = settle(np.array([5.0, 1.0], np.float16), want, wide)
    assert (found, a.tolist(), b.tolist()) == ([], [5.0, 1.0], [3.0, 1.0])  # compare's to judge


def test_what_leaves_the_range_of_the_type_in_float64_too_must_overflow():
    want = np.array([INF], np.float16)
    assert problems(np.array([INF], np.float16), want, [70000.0]) == []
    assert problems(np.array([65504.0], np.float16), want, [70000.0])


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (np.array([1000]), np.array([1001])),
        (np.array([2**53 + 1]), np.array([2**53])),
        (np.array([True]), np.array([False])),
        (np.array([1], np.int8), np.array([False])),
        (np.array([-1], np.int8), np.array([254], np.uint8)),
    ],
)
def test_integers_and_booleans_are_equal_or_wrong(got, want):
    (problem,) = problems(got, want)
    assert "1 of 1 integers differ" in problem


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (np.array([-1], np.int8), np.array([255], np.uint8)),
        (np.array([1], np.int8), np.array([True])),
        (np.array([7], np.int32), np.array([7], np.int64)),  # another type: compare says so
        (np.array([1, 2]), np.array([1])),  # another shape: compare says so
    ],
)
def test_what_the_abi_cannot_tell_apart_or_compare_names_is_left(got, want):
    assert problems(got, want) == []


@given(
    hnp.arrays(F32, st.integers(1, 20), elements=st.floats(width=32, allow_nan=True)),
)
def test_without_special_values_golden_is_finite_and_the_rest_is_as_it_was(want):
    got = want + 1
    wide = want.astype(np.float64)
    _, (a,), (b,), (c,) = verify.settle_special_values([got], [want], [wide], ["y"])
    finite = np.isfinite(want)
    for cleaned, before in ((a, got), (b, want), (c, wide)):
        assert cleaned.dtype == before.dtype
        np.testing.assert_array_equal(cleaned[finite], before[finite])
        assert not cleaned[~finite].any()


def test_outputs_of_another_count_or_shape_are_passed_on_as_they_are():
    want = [np.array([INF, 1.0])]
    got = [np.array([1.0]), np.array([2.0])]
    found, cleaned, _, wide = verify.settle_special_values(got, want, None, ["y"])
    assert found == []
    assert [c.tolist() for c in cleaned] == [[1.0], [2.0]]
    assert wide is None
