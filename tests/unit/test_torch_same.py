"""torch_same: what passes and what fails, with which detail and which errors.

tests/pipeline/test_compare_with_torch.py checks that the verdicts are those of torch, also where values are rounded to half types
and for integers. Here each rule has a readable example.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scripts.measure.verify import scaling
from scripts.measure.verify.torch_same import FAIL, PASS, Tolerance, compare, rmse

TOLERANCE = Tolerance(1e-3)
EXACT = Tolerance(0.0)
NAN, INF = np.nan, np.inf
FLOATS = [np.float64, np.float32, np.float16]
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
anything = hnp.arrays(st.sampled_from([*FLOATS, np.int64, np.uint8, np.bool_]), shapes)
floats = st.sampled_from(FLOATS).flatmap(lambda dtype: hnp.arrays(dtype, shapes))


def scaled(actual, golden, fp64, scale="each"):
    """The three lists as compare() judges them with `scale`."""
    exponents = scaling.exponents([np.asarray(want) for want in golden], scale)
    exponents += [0] * len(actual)  # there may be more outputs than golden has

    def shifted(arrays):
        return [scaling.shift(np.asarray(a), e) for a, e in zip(arrays, exponents, strict=False)]

    return shifted(actual), shifted(golden), None if fp64 is None else shifted(fp64)


def judge(got, want, fp64=None, tolerance=TOLERANCE, dtype=np.float32, **options):
    """One output of the given type; fp64 is always float64."""
    reference = None if fp64 is None else [np.asarray(fp64, np.float64)]
    return compare(
        [np.asarray(got, dtype)], [np.asarray(want, dtype)], reference, tolerance, **options
    )


@given(st.lists(anything, max_size=3), st.booleans(), st.booleans())
def test_outputs_equal_themselves_nan_and_infinity_included(arrays, cosine, scale):
    for fp64 in (None, [a.astype(np.float64) for a in arrays]):
        tolerance = Tolerance(1e-3, cosine)
        found = compare(arrays, arrays, fp64, tolerance, scale="each" if scale else None)
        assert (found.code, found.detail) == (PASS, "")
        assert not found.max_abs_error
        assert not found.rmse_vs_fp64


@pytest.mark.parametrize("tol", [-1e-3, NAN, INF])
def test_a_tolerance_is_a_finite_number_from_0_up(tol):
    for options in ({"tol": tol}, {"tol": 1e-3, "noise": tol}):
        with pytest.raises(
            ValueError, match=r"(tolerance|noise) .*: not a finite number from 0 up"
        ):
            Tolerance(**options)


# --- count, type, shape --------------------------------------------------------------------------


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize(
    ("got", "want"),
    [((1, 3), (3,)), ((3,), (1, 3)), ((1,), (3,)), ((), (1,)), ((0,), (0, 2)), ((2, 3), (3, 2))],
)
def test_another_shape_fails_even_where_it_would_broadcast(got, want, cosine):
    found = judge(np.ones(got), np.ones(want), np.ones(want), Tolerance(1e-3, cosine))
    assert found.code == FAIL
    assert found.detail == f"output 0: shape {got}, expected {want}"
    assert (found.max_abs_error, found.rmse_vs_fp64) == (None, None)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_of_outputs_fails(count):
    ones = np.ones(2)
    found = compare([ones] * count, [ones] * 2, [ones] * 2, TOLERANCE)
    assert (found.code, found.rmse_vs_fp64) == (FAIL, None)
    assert found.detail == f"{count} outputs, expected 2"


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ("float64", "float32"), ("float32", "float64"), ("float16", "float32"),
        ("int32", "float32"), ("float32", "int32"), ("int32", "int64"), ("uint16", "int8"),
        ("bool", "int8"), ("int32", "bool"), ("float32", "bool"), ("float16", "bfloat16"),
        ("float64", "bfloat16"),
    ],
)  # fmt: skip
def test_another_type_fails(got, want):
    stored = np.ones(2, "float32" if want == "bfloat16" else want)
    found = compare([np.ones(2, got)], [stored], None, TOLERANCE, [want])
    assert (found.code, found.detail) == (FAIL, f"output 0: {got}, expected {want}")


@pytest.mark.parametrize(
    ("got", "want", "dtype"),
    [
        (np.array([-1, 3], np.int8), np.array([255, 3], np.uint8), "uint8"),
        (np.array([2**63], np.uint64), np.array([-(2**63)]), "int64"),
        (np.array([1, 0], np.int8), np.array([True, False]), "bool"),
        (np.array([-1, 0], np.int8), np.array([True, False]), "bool"),
        (np.array([1, 0], np.uint8), np.array([True, False]), "bool"),
        (np.array([1.5], np.float32), np.array([1.5], np.float32), "bfloat16"),
        (np.array(-1, np.int8), np.array(255, np.uint8), "uint8"),
    ],
)
def test_types_that_the_abi_cannot_tell_apart_are_one(got, want, dtype):
    found = compare([got], [want], None, EXACT, [dtype])
    assert (found.code, found.max_abs_error) == (PASS, 0.0)


def test_a_signless_output_is_still_compared():
    found = compare([np.array([-1], np.int8)], [np.array([200], np.uint8)], None, TOLERANCE)
    assert found.detail == (
        "output 0: 1 of 1 values beyond tol 0.001, worst at [0]: 255, expected 200; "
        "no float64 reference to compare it with"
    )


def test_lists_that_do_not_fit_are_an_error():
    one = np.ones(1, np.float32)
    for fp64, dtypes, names in [([], None, None), (None, [], None), (None, None, ["a", "b"])]:
        with pytest.raises(ValueError, match="1 golden outputs"):
            compare([one], [one], fp64, TOLERANCE, dtypes, names)
    with pytest.raises(ValueError, match="stored as float32, but its type is float16"):
        compare([one], [one], None, TOLERANCE, ["float16"])
    with pytest.raises(ValueError, match="no rule for complex64"):
        compare([one.astype(np.complex64)], [one.astype(np.complex64)], None, TOLERANCE)


# --- allclose ------------------------------------------------------------------------------------


@given(hnp.arrays(np.float64, shapes, elements=st.floats(-1e6, 1e6)), st.floats(0, 3), st.data())
def test_the_tolerance_is_absolute_and_relative_to_actual(actual, factor, data):
    assume(actual.size and abs(factor - 1) > 1e-3)
    at = data.draw(st.integers(0, actual.size - 1))
    golden = actual.copy()
    golden.flat[at] += factor * (1e-3 + 1e-3 * abs(actual.flat[at]))
    # A reference that is not float64, as golden would be one.
    found = compare([actual], [golden], [golden.astype(np.float32)], TOLERANCE)
    assert found.code == (PASS if factor < 1 else FAIL)
    assert found.max_abs_error == pytest.approx(abs(actual - golden).max())
    index = [int(i) for i in np.unravel_index(at, golden.shape)]
    expected = f"output 0: 1 of {golden.size} values beyond tol 0.001, worst at {index}: "
    assert found.detail.startswith(expected) == (factor > 1)


@pytest.mark.parametrize(
    ("got", "want", "code"),
    [
        (NAN, 1.0, FAIL), (1.0, NAN, FAIL), (INF, 1.0, FAIL), (1.0, INF, FAIL), (INF, -INF, FAIL),
        (NAN, INF, FAIL), (INF, INF, PASS), (NAN, NAN, PASS), (-INF, -INF, PASS),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity_stand_where_golden_has_them(got, want, code, dtype):
    for tolerance in (Tolerance(1e3), EXACT):
        fp64 = [np.zeros(2, np.float32)]
        found = compare([np.array([got, 2], dtype)], [np.array([want, 2], dtype)], fp64, tolerance)
        assert found.code == code
        assert (f"worst at [0]: {got:g}, expected {want:g}" in found.detail) == (code == FAIL)


def test_an_error_of_just_the_tolerance_passes():
    # Exact in binary: 0.5 from 0.5 + 0.5 * 0, and RMSE 0.25 against 2 * 0.125.
    assert judge(0.0, 0.5, tolerance=Tolerance(0.5)).code == PASS
    want, got = np.full(1024, 0.125), np.full(1024, -0.25)
    assert judge(got, want, np.zeros(1024), EXACT).code == PASS
    assert judge(got * (1 + 1e-9), want, np.zeros(1024), EXACT, np.float64).code == FAIL


# --- integers and booleans -----------------------------------------------------------------------


def test_integers_are_compared_in_float32_unless_tol_is_0():
    assert judge([2**53 + 1], [2**53], dtype=np.int64).code == PASS
    found = judge([0, 2**53 + 1], [0, 2**53], tolerance=EXACT, dtype=np.int64)
    assert "worst at [1]: 9007199254740993, expected 9007199254740992" in found.detail


def test_an_integers_difference_does_not_wrap_around():
    found = judge([255], [0], dtype=np.uint8)
    assert (found.code, found.max_abs_error) == (FAIL, 255.0)
    assert judge([-128], [127], dtype=np.int8).max_abs_error == 255.0


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("fp64", [None, [1.0, 1.0]])
def test_booleans_are_exact_under_every_rule(cosine, fp64):
    found = judge([True, False], [True, True], fp64, Tolerance(0.02, cosine), np.bool_)
    assert found.code == FAIL
    expected = "output 0: 1 of 2 values beyond tol 0.02, worst at [1]: False, expected True"
    assert found.detail == expected


# --- RMSE against float64 ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dtype", "tol", "small", "multiplier"),
    [
        ((1000,), "float32", 1e-3, False, 2), ((1000,), "float64", 1e-3, True, 2),
        ((999,), "float32", 1e-3, False, 3), ((999,), "float32", 1e-3, True, 8),
        ((11,), "float32", 1e-3, True, 8), ((10,), "float32", 1e-3, True, 10),
        ((), "float64", 1e-3, True, 10), ((10,), "float32", 1e-3, False, 3),
        ((1000,), "float16", 1e-3, False, 3), ((1000,), "bfloat16", 1e-3, True, 3),
        ((5,), "float16", 1e-3, True, 10), ((500,), "bfloat16", 1e-3, True, 8),
        ((10, 100, 1, 1), "float32", 1e-3, False, 3), ((10, 100, 1, 1), "float32", 1e-3, True, 3),
        ((10, 10, 10, 1), "float32", 1e-3, False, 2), ((10, 10, 1, 10), "float32", 1e-3, False, 2),
        ((1000, 1, 1), "float32", 1e-3, False, 2), ((1, 1000, 1, 1, 1), "float32", 1e-3, False, 2),
        ((1000,), "float32", 0.02, False, 3), ((1000,), "float32", 0.0199, False, 2),
    ],
)  # fmt: skip
def test_golden_is_allowed_to_be_nearer_to_float64_by_a_multiplier(
    shape, dtype, tol, small, multiplier
):
    kind = "float32" if dtype == "bfloat16" else dtype
    fp64 = np.zeros(shape)
    golden = np.full(shape, 1.0, kind)
    tolerance = Tolerance(tol, small_tensor_multiplier=small)

    def found(error):
        # Of one sign or the other, so that no two outputs are close.
        actual = np.full(shape, -error, kind)
        return compare([actual], [golden], [fp64], tolerance, [dtype])

    edge = multiplier + tol / 10
    step = {"float16": 2**-7, "bfloat16": 2**-4}.get(dtype, 1e-5)
    assert found(edge - step).code == PASS
    failed = found(edge + step)
    assert failed.code == FAIL
    assert f", allowed {multiplier} × golden's 1 + tol/10" in failed.detail
    assert "values beyond tol" in failed.detail


@pytest.mark.parametrize(("error", "code"), [(0.99e-4, PASS), (1.01e-4, FAIL)])
def test_a_tenth_of_tol_is_allowed_where_golden_is_exact(error, code):
    # One value of many carries all of the error.
    golden = np.zeros(10000)
    actual = golden.copy()
    actual[7] = error * 100
    assert judge(actual, golden, golden).code == code
    # Without a reference float64 outputs are compared with golden in the same way; others are not.
    assert judge(actual, golden, dtype=np.float64).code == code
    assert judge(actual, golden).code == FAIL


def test_a_reference_that_is_not_float64_or_of_another_shape_is_none():
    actual, golden = np.full(3, 1.1, np.float32), np.full(3, 1.0, np.float32)
    for fp64 in (np.full(3, 1.1, np.float32), np.full((1, 3), 1.1), np.array([1, 1, 1])):
        found = compare([actual], [golden], [fp64], TOLERANCE)
        assert found.code == FAIL
        assert found.detail.endswith("; no float64 reference to compare it with")
    assert compare([actual], [golden], [np.full(3, 1.1)], TOLERANCE).code == PASS


@pytest.mark.parametrize(
    ("got", "want", "fp64", "code"),
    [
        ([1.0, 2.0], [NAN, 2.0], [1.0, 2.0], PASS),
        ([1.04, 2.0], [NAN, 2.0], [1.0, 2.0], PASS),
        ([1.1, 2.0], [NAN, 2.0], [1.0, 2.0], FAIL),
        # Only NaN counts as bad: an infinity of golden lets any finite value pass.
        ([9.0, 9.0], [INF, 2.0], [1.0, 2.0], PASS),
        ([NAN, 9.0], [INF, 2.0], [1.0, 2.0], FAIL),
        # NaN on both sides: same() sees nothing else of the output.
        ([NAN, 5.0], [NAN, 2.0], [1.0, 2.0], PASS),
        ([1.0, NAN], [NAN, 2.0], [1.0, 2.0], PASS),
        ([1.0, 9.0], [NAN, 2.0], [NAN, 2.0], PASS),
        ([-INF, 9.0], [-INF, 2.0], [-INF, 2.0], PASS),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_what_torch_makes_of_nan_and_infinity_in_golden(got, want, fp64, code, dtype):
    assert judge(got, want, fp64, dtype=dtype).code == code


# --- cosine --------------------------------------------------------------------------------------


def turned(cosine, dtype=np.float32):
    golden = np.array([[3.0, 0.0]], dtype)
    return np.array([[cosine, np.sqrt(1 - cosine**2)]], dtype), golden


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_the_cosine_decides_whatever_the_length_and_float64(dtype):
    tolerance = Tolerance(1e-3, cosine=True)
    actual, golden = turned(0.992, dtype)
    assert judge(actual * 100, golden, -golden, tolerance, dtype).code == PASS
    actual, golden = turned(0.988, dtype)
    found = judge(actual, golden, actual, tolerance, dtype)
    assert found.code == FAIL
    assert found.detail.startswith("output 0: cosine similarity 0.98")
    assert "expected at least 0.99; 2 of 2 values beyond tol 0.001" in found.detail
    assert judge(-golden, golden, None, tolerance, dtype).code == FAIL


def test_what_is_close_has_no_need_of_an_angle():
    tolerance = Tolerance(1e-3, cosine=True)
    assert judge(np.zeros(3), np.zeros(3), None, tolerance).code == PASS
    assert judge([NAN, 1], [NAN, 1], None, tolerance).code == PASS
    assert judge([NAN, 1], [NAN, 2], None, tolerance).code == FAIL
    # float32's range ends at the square of 1e19: norms of infinity, a cosine of 0.
    assert judge(np.full(3, 2e19), np.full(3, 1e19), None, tolerance).code == FAIL
    # Norms below 1e-6 count as 1e-6.
    assert judge([2e-7, 0], [1e-7, 0], None, Tolerance(0, cosine=True)).code == FAIL
    assert judge([2e-6, 0], [1e-6, 0], None, Tolerance(0, cosine=True)).code == PASS


# --- what is said --------------------------------------------------------------------------------


def test_detail_names_the_output_and_says_by_how_much():
    golden = np.zeros((4, 1024), np.float32)
    actual = golden.copy()
    actual[0, :12] = 0.5
    actual[2, 3] = -1.23
    fp64 = np.full(golden.shape, 1e-5)
    found = compare([actual], [golden], [fp64], TOLERANCE, names=["logits"])
    assert found.detail == (
        "logits: 13 of 4096 values beyond tol 0.001, worst at [2, 3]: -1.23, expected 0; "
        "RMSE against float64 0.0331928, allowed 2 × golden's 1e-05 + tol/10"
    )
    assert found.max_abs_error == pytest.approx(1.23)
    assert found.rmse_vs_fp64 == pytest.approx(0.0331928, rel=1e-5)


def test_the_first_three_problems_are_told():
    ones = [np.ones(i + 1) for i in range(5)]
    found = compare([ones[0], *[np.ones(9)] * 4], ones, None, TOLERANCE)
    assert found.detail == "; ".join(f"output {i}: shape (9,), expected ({i + 1},)" for i in (1, 2, 3))  # fmt: skip


def test_the_largest_error_is_over_all_outputs_that_can_be_compared():
    golden = [np.zeros(2), np.zeros(3), np.array([1, 200], np.uint8)]
    actual = [np.array([0.5, 0.0]), np.zeros(4), np.array([1, 203], np.uint8)]
    found = compare(actual, golden, golden, TOLERANCE)
    assert (found.max_abs_error, found.rmse_vs_fp64) == (3.0, None)
    assert compare(actual[::-1], golden[::-1], golden, TOLERANCE).max_abs_error == 3.0


@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
def test_a_value_that_alone_is_not_finite_makes_the_errors_infinite(wrong):
    found = judge([3.0, wrong], [1.0, 1.0])
    assert (found.max_abs_error, found.rmse_vs_fp64) == (None, None)
    found = judge([3.0, 1.0], [1.0, wrong])
    assert (found.max_abs_error, found.rmse_vs_fp64) == (None, None)
    assert judge([3.0, wrong], [1.0, wrong]).max_abs_error == 2.0


def test_nan_is_worse_than_any_number():
    found = judge([9e9, NAN, 0.0], [0.0, 1.0, 0.0])
    assert "2 of 3 values beyond tol 0.001, worst at [1]: nan, expected 1;" in found.detail


@given(hnp.arrays(np.float64, 4), hnp.arrays(np.float64, 4), st.booleans())
def test_errors_are_numbers_that_json_holds_or_none(got, want, scale):
    found = compare([got], [want], [want], TOLERANCE, scale="each" if scale else None)
    assert found.max_abs_error is None or np.isfinite(found.max_abs_error)
    assert found.rmse_vs_fp64 is None or np.isfinite(found.rmse_vs_fp64)


@given(hnp.arrays(np.float64, (2, 9), elements=st.floats(-1e100, 1e100)), st.integers(0, 9))
def test_rmse_is_over_all_elements_of_all_outputs(pair, cut):
    got, want = pair
    split = [[array[:cut], array[cut:]] for array in (got, want)]
    assert rmse(*split) == pytest.approx(np.sqrt(np.mean((got - want) ** 2)))


def test_rmse_leaves_out_what_is_the_same_nan_and_is_none_where_it_is_not_finite():
    got, want = np.array([NAN, 3.0, 1.0]), np.array([NAN, 1.0, 1.0])
    assert rmse([got], [want]) == pytest.approx(np.sqrt(2.0))
    assert rmse([got[:1]], [want[:1]]) is None
    assert rmse([got], [np.nan_to_num(want)]) is None
    assert rmse([np.array([1e200])], [np.zeros(1)]) is None


# --- small outputs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "dtype", "name"),
    [
        (1e-9, np.float32, "float32"), (1e-30, np.float32, "float32"),
        (1e-44, np.float32, "float32"), (1e-9, np.float64, "float64"),
        (1e-300, np.float64, "float64"), (5e-324, np.float64, "float64"),
        (1e-4, np.float16, "float16"), (1e-7, np.float16, "float16"),
        (2.0**-30, np.float32, "bfloat16"), (2.0**-133, np.float32, "bfloat16"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("with_fp64", [False, True])
@pytest.mark.parametrize("cosine", [False, True])
def test_zeros_do_not_pass_for_small_values(size, dtype, name, with_fp64, cosine):
    golden = [np.array([size, -size, size], dtype)]
    fp64 = [golden[0].astype(np.float64)] if with_fp64 else None
    tolerance = Tolerance(1e-3, cosine)
    zeros = [np.zeros(3, dtype)]
    assert compare(zeros, golden, fp64, tolerance, [name], scale="each").code == FAIL
    assert compare(golden, golden, fp64, tolerance, [name], scale="each").code == PASS


@given(st.lists(floats, min_size=1, max_size=3))
def test_scaling_rounds_nothing_and_brings_small_outputs_to_one_half_or_more(arrays):
    fp64 = [a.astype(np.float64) for a in arrays]
    for array, got, want, wide in zip(arrays, *scaled(arrays, arrays, fp64), strict=True):
        assert got.dtype == want.dtype == array.dtype
        assert got.shape == want.shape == wide.shape == array.shape
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(want.astype(np.float64), wide)
        # NaN stays, infinity stays, and 0.
        np.testing.assert_array_equal(np.isfinite(want), np.isfinite(array))
        np.testing.assert_array_equal(np.sign(want), np.sign(array))
        finite = wide[np.isfinite(wide)]
        largest = np.abs(finite).max(initial=0.0)
        if largest == 0:
            continue
        rms = largest * np.sqrt(np.mean(np.square(finite / largest)))
        assert rms > 0.5 * (1 - 1e-12)
        if not np.array_equal(want, array, equal_nan=True):
            assert rms < 1
            factor = finite[np.argmax(np.abs(finite))] / array.astype(np.float64)[np.isfinite(array)][np.argmax(np.abs(finite))]  # fmt: skip
            assert np.isinf(factor) or np.frexp(factor)[0] == 0.5


@pytest.mark.parametrize("values", [[0.5, -0.5], [0.5], [1.0, 300.0], [1.0, 0.0], [0.0], [NAN], []])
def test_outputs_that_are_not_small_are_left_as_they_are(values):
    array = np.array(values, np.float32)
    for found in scaled([array], [array], [array]):
        np.testing.assert_array_equal(found[0], array)
    assert scaled([array], [array], None)[2] is None


def test_the_scale_is_that_of_goldens_finite_values_and_of_one_output():
    golden = [np.array([1e-9, NAN, INF]), np.array([1.0]), np.array([3, 0])]
    actual = [np.array([0.0, NAN, INF]), np.array([1.0]), np.array([3, 0])]
    got, want, _ = scaled(actual, golden, None)
    assert 0.5 <= want[0][0] < 1
    assert [want[1][0], *want[2]] == [1.0, 3, 0]
    assert (got[2].dtype, want[2].dtype) == (np.int64, np.int64)
    assert compare(got, want, [np.zeros(3, np.float32)] * 3, TOLERANCE).code == FAIL


def test_in_a_group_the_scale_is_an_outputs_own_or_the_groups_if_that_is_larger():
    # Compared with 1e-6, 1e-12 is rounding and has no scale of its own; nor have zeros.
    golden = [np.full(3, 1e-6), np.full((2, 2), 1e-12), np.array([INF, NAN]), np.zeros(1), np.array([7])]  # fmt: skip
    actual = [np.full(3, 1e-6), np.zeros((2, 2)), np.array([INF, NAN]), np.zeros(1), np.array([7])]
    lists = (actual, golden, golden)
    for found, unscaled in zip(scaled(*lists, "group"), lists, strict=True):
        # Own: 1e-6 is 0.52 × 2**-19. The RMS of the group's eight finite values is 6.1e-7.
        np.testing.assert_array_equal(found[0], unscaled[0] * 2.0**19)
        for array, before in zip(found[1:4], unscaled[1:4], strict=True):
            np.testing.assert_array_equal(array, before * 2.0**20)
        np.testing.assert_array_equal(found[4], [7])
    others = [np.zeros(a.shape, np.float32) for a in golden]  # no float64 reference
    for scale, code in (("group", PASS), ("each", FAIL)):
        assert compare(actual, golden, others, TOLERANCE, scale=scale).code == code
    zeros = [np.zeros(3), *actual[1:]]
    assert compare(zeros, golden, others, TOLERANCE, scale="group").code == FAIL
    assert compare(golden, golden, golden, TOLERANCE, scale="group").code == PASS


@pytest.mark.parametrize(
    ("error", "code"), [(0.0, FAIL), (0.9e-3, FAIL), (1.1e-3, PASS), (NAN, PASS), (None, PASS)]
)
def test_in_a_group_a_small_output_of_which_golden_is_accurate_has_its_own_scale(error, code):
    """`error`: golden's, relative to float64; None without float64 values."""
    golden = [np.ones(9, np.float32), np.full(9, 1e-4, np.float32)]
    fp64 = None
    if error is not None:
        fp64 = [golden[0].astype(float), golden[1].astype(float) * (1 + error)]
    wrong = [golden[0], golden[1] * np.float32(1.05)]
    assert compare(wrong, golden, fp64, Tolerance(1e-2), scale="group").code == code


def test_in_a_group_of_many_small_values_a_large_output_keeps_its_own_scale():
    # A relu that flips moves one value by a thousandth of its tensor's scale.
    golden = [np.full(10, 1.0), np.full(100_000, 1e-6)]
    actual = [golden[0] + 0.9e-3, golden[1]]
    assert compare(actual, golden, None, TOLERANCE, scale="group").code == PASS


def test_a_large_value_where_golden_is_small_fails():
    golden = np.full(3, 1e-7, np.float16)
    for value in (60000.0, INF, NAN):
        assert judge([value, 1e-7, 1e-7], golden, golden, dtype=np.float16, scale="each").code == FAIL  # fmt: skip


def test_scaled_judging_reports_in_goldens_own_units():
    # 2**-30 is twice the divisor's reach: [0.5, 1) holds 2**-30 / 2**-29.
    golden = np.full(1000, 2.0**-30)
    actual = golden.copy()
    actual[5] *= 2
    found = judge(actual, golden, golden, scale="each")
    assert found.detail == (
        "output 0: 1 of 1000 values beyond tol 0.001 × 2**-29, worst at [5]: 1.86265e-09, "
        "expected 9.31323e-10; RMSE against float64 2.9451e-11, "
        "allowed 2 × golden's 0 + tol/10 × 2**-29"
    )
    assert found.max_abs_error == 2.0**-30
    assert found.rmse_vs_fp64 == pytest.approx(2.0**-30 / np.sqrt(1000))
    assert judge(actual, golden, golden).code == PASS


def test_outputs_of_another_label_are_another_group():
    golden = [np.array([0.5]), np.full(9, 1e-3), np.full(2, 1e-12)]
    wrong = [golden[0], golden[1] * 1.05, golden[2]]
    noise = [golden[0], golden[1], np.zeros(2)]
    for actual, code in ((wrong, FAIL), (noise, PASS)):
        assert compare(actual, golden, None, Tolerance(1e-2), scale=["loss", "w", "w"]).code == code
    assert compare(wrong, golden, None, Tolerance(1e-2), scale="group").code == PASS
