"""Single elements and rows that torch's `same` does not see, and right programs that must pass."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import candidates
from scripts.core.tensors import TensorType
from scripts.measure.verify import local_errors
from scripts.measure.verify.torch_same import FAIL, PASS, TOLERANCES, Tolerance, compare
from scripts.measure.verify.verify import Expected, verify

WRONG = [
    "one element × 1.01",
    "one element + 0.01 RMS",
    "smallest row zeroed",
    "smallest row negated",
]


def rounded(exact: np.ndarray, seed: int, error: float = 1e-6) -> np.ndarray:
    """What a correct program gives: the exact result with rounding errors of its own, at one scale."""
    noise = np.random.default_rng(seed).standard_normal(exact.shape)
    return (exact + error * candidates._rms(exact) * noise).astype(np.float32)


def expected(exact: np.ndarray, name: str = "y", **changes) -> Expected:
    golden = rounded(exact, 1)
    kind = TensorType(name, golden.shape, "float32")
    return dataclasses.replace(Expected([kind], [golden], [exact], True, "f32"), **changes)


def judge(got, golden, exact, dtype="float64") -> str:
    return "; ".join(local_errors.problems([got], [golden], [exact], [dtype], ["y"], 1e-3))


def exact_values(shape=(64, 512), smallest=1e-4) -> np.ndarray:
    """Values of which each row has a scale of its own, the last one that of `smallest`."""
    values = np.random.default_rng(0).standard_normal(shape)
    values[..., -1, :] *= smallest
    return values


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("shape", [(64, 512), (1, 4, 32, 256), (50, 1000)])
def test_what_same_accepts_fails(name, shape):
    exact = exact_values(shape)
    held = expected(exact)
    wrong = candidates.CHANGES[name](held.golden[0], np.random.default_rng(0)).astype(np.float32)
    assert compare([wrong], held.golden, held.fp64, Tolerance(1e-3), scale="each").code == PASS
    assert verify([wrong], held, {}).code == FAIL


@given(st.integers(2, 1000), st.sampled_from([1e-30, 1e-3, 1.0, 1e6]), st.floats(1e-8, 1.9e-6))
def test_right_programs_pass_at_every_scale(seed, scale, error):
    exact = scale * exact_values(smallest=1e-7)
    assert verify([rounded(exact, seed, error)], expected(exact), {}).code == PASS


def test_an_element_is_named_with_its_error_and_what_is_allowed():
    exact = np.ones((3, 40, 50))
    wrong = rounded(exact, 2)
    wrong[1, 2, 3] = 1.005
    held = expected(exact)
    largest = float(np.abs(held.golden[0] - exact).max())
    assert verify([wrong], held, {}).detail == (
        "y: element [1, 2, 3]: 1.005, expected 1; its error is 0.005, allowed "
        f"{2e-4 + local_errors.ELEMENT * largest:.3g} (tol 0.0001 of it and of its row's RMS 1, and "
        f"{local_errors.ELEMENT:g} × eager's largest error {largest:.3g})"
    )


def test_a_row_is_named_with_its_error_and_what_is_allowed():
    # Every element is within its own bound, which is that of the one large error of eager.
    exact = np.ones((4, 2, 1000))
    exact[3, 1] = 1e-4
    golden = exact.copy()
    golden[0, 0, 0] += 1e-4
    got = golden.copy()
    got[3, 1] = 0
    row = 1e-4 / np.sqrt(1000)
    assert judge(got, golden, exact) == (
        "y: row [3, 1]: the RMS of its errors is 0.0001, allowed "
        f"{2e-7 + local_errors.ROW * row:.3g} (2 × tol 0.001 of its RMS 0.0001, and "
        f"{local_errors.ROW:g} × that of eager's worst row {row:.3g})"
    )


def test_eagers_errors_allow_as_large_ones():
    """A sum that cancels: no tolerance of its own value, but eager rounds it too."""
    exact = np.concatenate([np.full((1, 512), 1e-4), np.ones((7, 512))])
    golden, got = exact.copy(), exact.copy()
    golden[:, ::2] += 1e-3
    got[:, ::2] += 5e-3
    assert judge(got, golden, exact) == ""
    assert "element [0, 0]" in judge(got, exact, exact)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_where_eager_is_exact_by_chance_rounding_is_allowed_all_the_same(dtype):
    exact = np.concatenate([np.ones((4, 8)), np.full((1, 8), 1e-9)])
    got = exact.copy()
    got[4] += 4 * local_errors.EPSILON[dtype]
    assert judge(got, exact, exact, dtype) == ""
    got[4] += 100 * local_errors.EPSILON[dtype]
    assert "element [4, 0]" in judge(got, exact, exact, dtype)


def test_the_position_is_right_in_every_block(monkeypatch):
    monkeypatch.setattr(local_errors, "BLOCK", 100)
    exact = np.random.default_rng(0).standard_normal((7, 11, 13))
    for at in [(0, 0, 0), (3, 5, 12), (6, 10, 4)]:
        wrong = exact.copy()
        wrong[at] += 1
        assert f"element {list(at)}:" in judge(wrong, exact, exact)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1,), (5,), (5, 1)])
def test_any_shape(shape):
    exact = np.ones(shape)
    assert judge(exact, exact, exact) == ""
    if exact.size:
        assert "element [" in judge(exact * 1.1, exact, exact)


def test_what_has_no_scale_or_is_not_finite_has_no_bound():
    zeros = np.zeros((2, 3))
    assert judge(zeros + 1e-9, zeros, zeros) == ""
    exact = np.array([[1.0, np.nan, np.inf]])
    got = np.array([[1.0, 5.0, 7.0]])
    huge = np.full((2, 3), 1e200)
    with np.errstate(all="raise"):
        assert judge(huge * 2, huge, huge) == ""
        assert judge(got, exact, exact) == ""
        assert "element [0, 0]" in judge(got * 2, exact, exact)


WRONG_ELEMENT = candidates.CHANGES["one element + 0.01 RMS"]


@pytest.mark.parametrize(
    ("tolerance", "changes", "code"),
    [
        ({}, {}, FAIL),
        # A model's own tolerance counts for elements too.
        ({"tol": 0.02}, {}, PASS),
        ({"cosine": True}, {}, PASS),
        ({}, {"fp64": None}, FAIL),  # `same` alone: no error beyond tol
    ],
)
def test_when_elements_are_bounded(tolerance, changes, code):
    exact = exact_values()
    held = dataclasses.replace(expected(exact), **changes)
    wrong = WRONG_ELEMENT(held.golden[0], np.random.default_rng(0))
    assert verify([wrong.astype(np.float32)], held, tolerance).code == code


def test_gradients_have_torchs_rule_alone():
    exact = exact_values()
    names = ["loss", "gradient of w"]
    golden = [np.float32(1).reshape(()), rounded(exact, 1)]
    types = [TensorType(n, a.shape, "float32") for n, a in zip(names, golden, strict=True)]
    held = Expected(types, golden, [np.ones(()), exact], True, "f32")
    flipped = golden[1].copy()
    flipped[3, 5] += 0.05
    assert verify([golden[0], flipped], held, {}, names).code == PASS


def test_every_type_has_a_rounding_error():
    assert set(local_errors.EPSILON) == {"float64", "float32", "float16", "bfloat16"}
    assert set(TOLERANCES) == set(local_errors.TOLERANCES)
