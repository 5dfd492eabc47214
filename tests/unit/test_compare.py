"""compare: equal is PASS, beyond tolerance or of another kind is FAIL, and errors are numbers."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scripts.lib.compare import FAIL, PASS, compare, rmse

TOLERANCE = {"atol": 1e-3, "rtol": 1e-2}
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
finite = hnp.arrays(np.float32, shapes, elements=st.floats(-1e6, 1e6, width=32))
anything = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_]), shapes
)


@given(st.lists(anything, max_size=3))
def test_outputs_equal_themselves_nan_and_infinity_included(arrays):
    found = compare(arrays, arrays, arrays, **TOLERANCE)
    assert (found.code, found.detail) == (PASS, "")
    assert not found.max_abs_error
    assert not found.rmse_vs_fp64


@given(finite, st.floats(0, 3), st.data())
def test_the_tolerance_decides_over_a_perturbation(golden, factor, data):
    assume(golden.size and abs(factor - 1) > 1e-3)
    at = data.draw(st.integers(0, golden.size - 1))
    golden = golden.astype(np.float64)
    moved = golden.copy()
    scale = min(1.0, np.sqrt(np.mean(golden**2))) or 1.0
    moved.flat[at] += factor * (
        TOLERANCE["atol"] * scale + TOLERANCE["rtol"] * abs(golden.flat[at])
    )
    found = compare([moved], [golden], None, **TOLERANCE)
    assert found.code == (PASS if factor < 1 else FAIL)
    assert found.max_abs_error == pytest.approx(abs(moved - golden).max())
    index = [int(i) for i in np.unravel_index(at, golden.shape)]
    assert factor < 1 or f"output 0: 1 of {golden.size} values" in found.detail
    assert factor < 1 or f"worst at {index}" in found.detail


@pytest.mark.parametrize(
    ("got", "want"),
    [((1, 3), (3,)), ((3,), (1, 3)), ((1,), (3,)), ((), (1,)), ((0,), (0, 2)), ((2, 3), (3, 2))],
)
def test_another_shape_fails_even_where_it_would_broadcast(got, want):
    found = compare([np.ones(got)], [np.ones(want)], [np.ones(want)], **TOLERANCE)
    assert found.code == FAIL
    assert found.detail == f"output 0: shape {got}, expected {want}"
    assert (found.max_abs_error, found.rmse_vs_fp64) == (None, None)


@pytest.mark.parametrize("golden", [np.array([7]), np.array([2**53]), np.array([255], np.uint8)])
@pytest.mark.parametrize("by", [-1, 1])
def test_integers_are_exact(golden, by):
    got = golden.astype(np.int64) + by
    assert compare([got], [golden], None, atol=10, rtol=10).code == FAIL
    assert compare([golden], [golden], None, atol=0, rtol=0).code == PASS


@pytest.mark.parametrize(
    ("got", "want"), [(2**53 + 1, 2**53), (2**63 - 1, 2**63 - 2), (-(2**63), -(2**63) + 1)]
)
def test_integers_that_float64_cannot_tell_apart_differ(got, want):
    found = compare([np.array([0, got])], [np.array([0, want])], None, atol=10, rtol=10)
    assert found.code == FAIL
    assert found.detail == (f"output 0: 1 of 2 values differ; first at [1]: {got}, expected {want}")


@pytest.mark.parametrize("size", [1e-9, 1e-30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_do_not_pass_for_small_values(size, dtype):
    golden = np.array([size, -size, size], dtype)
    assert compare([np.zeros_like(golden)], [golden], None, **TOLERANCE).code == FAIL
    assert compare([golden * dtype(1.001)], [golden], None, **TOLERANCE).code == PASS


def test_the_scale_is_that_of_goldens_finite_values():
    golden = np.array([1e-9, np.nan, np.inf])
    assert compare([np.array([0, np.nan, np.inf])], [golden], None, **TOLERANCE).code == FAIL


@pytest.mark.parametrize("golden", [0.0, 1.0, 100.0])
def test_the_tolerance_is_never_scaled_up_and_is_whole_against_zeros(golden):
    want = np.full(3, golden)
    assert compare([want + 0.9e-3], [want], None, atol=1e-3, rtol=0).code == PASS
    assert compare([want + 1.1e-3], [want], None, atol=1e-3, rtol=0).code == FAIL


def test_booleans_are_exact():
    assert compare([np.array(True)], [np.array(False)], None, atol=10, rtol=10).code == FAIL


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_of_outputs_fails(count):
    ones = np.ones(2)
    found = compare([ones] * count, [ones] * 2, [ones] * 2, **TOLERANCE)
    assert (found.code, found.rmse_vs_fp64) == (FAIL, None)
    assert f"{count} outputs, expected 2" in found.detail


@pytest.mark.parametrize(
    ("got", "want", "code"),
    [
        (np.nan, 1.0, FAIL),
        (1.0, np.nan, FAIL),
        (np.inf, 1.0, FAIL),
        (np.inf, -np.inf, FAIL),
        (np.nan, np.inf, FAIL),
        (np.inf, np.inf, PASS),
        (np.nan, np.nan, PASS),
    ],
)
def test_nan_and_infinity_stand_where_golden_has_them(got, want, code):
    found = compare([np.array([got, 2.0])], [np.array([want, 2.0])], None, atol=1e9, rtol=1e9)
    assert found.code == code
    assert ("NaN or infini" in found.detail) == (code == FAIL)


@given(hnp.arrays(np.float64, 4), hnp.arrays(np.float64, 4))
def test_errors_are_numbers_that_json_holds_or_none(got, want):
    with np.errstate(all="ignore"):
        found = compare([got], [want], [want], **TOLERANCE)
    assert found.max_abs_error is None or np.isfinite(found.max_abs_error)
    assert found.rmse_vs_fp64 is None or np.isfinite(found.rmse_vs_fp64)


@given(hnp.arrays(np.float64, (2, 9), elements=st.floats(-1e100, 1e100)), st.integers(0, 9))
def test_rmse_is_over_all_elements_of_all_outputs(pair, cut):
    got, want = pair
    split = [[array[:cut], array[cut:]] for array in (got, want)]
    assert rmse(*split) == pytest.approx(np.sqrt(np.mean((got - want) ** 2)))


def test_rmse_leaves_out_what_is_not_finite_and_is_none_where_nothing_is():
    got, want = np.array([np.nan, 3.0, 1.0]), np.array([0.0, 1.0, 1.0])
    assert rmse([got], [want]) == pytest.approx(np.sqrt(2.0))
    assert rmse([got[:1]], [want[:1]]) is None
