"""Results compared with golden: count, names, tolerance, and wrong results that `same` accepts."""

import dataclasses

import numpy as np
import pytest

from scripts.core.tensors import TensorType
from scripts.measure.verify import torch_same
from scripts.measure.verify.verify import Expected, verify

RNG = np.random.default_rng(0)
GOLDEN = [RNG.standard_normal((4, 8)).astype(np.float32), np.arange(3)]


def expected(golden=None, names=("logits", "tokens"), **changes) -> Expected:
    golden = GOLDEN if golden is None else golden
    types = [
        TensorType(name, array.shape, str(array.dtype))
        for name, array in zip(names, golden, strict=True)
    ]
    wide = [np.asarray(array, np.float64) for array in golden]
    return dataclasses.replace(Expected(types, golden, wide, True, "f32"), **changes)


def test_the_same_results_pass_and_say_by_how_much():
    found = verify(GOLDEN, expected(), {})
    assert (found.code, found.detail, found.max_abs_error, found.tol) == ("PASS", "", 0.0, 1e-3)
    assert found.rmse_vs_fp64 == found.golden_rmse_vs_fp64 == 0.0


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_errors_beside_a_nan_or_infinity_of_one_alone_are_infinite_and_outputs_have_names(special):
    wrong, golden = GOLDEN[0].copy(), GOLDEN[0].copy()
    wrong[0, 0] = special
    found = verify([wrong], expected([golden], [""]), {})
    assert found.detail.startswith("output 0: 1 of 32 values beyond tol 0.001")
    assert (found.code, found.max_abs_error, found.rmse_vs_fp64) == ("FAIL", None, None)
    found = verify([golden], expected([wrong], [""]), {})
    assert found.detail.startswith("output 0: 1 of 32 values are not the NaN or infinity of golden")
    assert (found.code, found.max_abs_error, found.rmse_vs_fp64) == ("FAIL", None, None)


@pytest.mark.parametrize(
    ("tolerance", "code"), [({}, "FAIL"), ({"tol": 0.2}, "PASS"), ({"cosine": True}, "PASS")]
)
def test_a_models_own_tolerance_counts(tolerance, code):
    assert verify([GOLDEN[0] * 1.1, GOLDEN[1]], expected(), tolerance).code == code


def test_noise_is_of_outputs_and_gradients_have_torchs_rule_with_as_much_room():
    rng = np.random.default_rng(1)
    spread = [(GOLDEN[0] + 0.03 * rng.standard_normal(GOLDEN[0].shape)).astype(np.float32)]
    held = expected(GOLDEN[:1], ["logits"])
    assert (verify(spread, held, {}).code, verify(spread, held, {}).noise) == ("FAIL", None)
    found = verify(spread, held, {"noise": 0.05})
    assert (found.code, found.noise, found.tol) == ("PASS", 0.05, 1e-3)
    step = verify(spread, held, {"noise": 0.05}, ["logits"])
    assert (step.code, step.noise, step.tol) == ("PASS", None, 0.1)


def test_a_token_off_by_one_fails_though_it_is_within_the_tolerance():
    golden = [np.array([1000, 2000])]
    found = verify([np.array([1001, 2000])], expected(golden, ["tokens"]), {})
    assert found.code == torch_same.FAIL
    assert "tokens: 1 of 2 integers differ" in found.detail


def test_an_infinity_in_golden_does_not_let_the_rest_pass():
    golden = [np.array([-np.inf, 2.0, 3.0], np.float32)]
    held = expected(golden, ["masked"])
    assert verify([np.array([-np.inf, 2.0, 3.0], np.float32)], held, {}).code == torch_same.PASS
    for wrong in ([-np.inf, 2.0, 4.0], [0.0, 2.0, 3.0]):
        assert verify([np.array(wrong, np.float32)], held, {}).code == torch_same.FAIL


def test_an_output_that_golden_overflowed_in_is_held_to_float64():
    golden = [np.full(4, np.inf, np.float16)]
    right = np.array([1.0, -2.0, 3.0, 4.0])
    held = dataclasses.replace(expected(golden, ["y"]), fp64=[right], dtype="f16")
    assert verify([right.astype(np.float16)], held, {}).code == torch_same.PASS
    assert verify([-right.astype(np.float16)], held, {}).code == torch_same.FAIL


def test_zeros_do_not_pass_for_small_values():
    golden = [np.full((8,), 1e-9, np.float32)]
    assert verify([np.zeros(8, np.float32)], expected(golden, ["y"]), {}).code == torch_same.FAIL


def test_a_model_that_is_not_deterministic_is_never_passed():
    found = verify(GOLDEN, expected(deterministic=False), {})
    assert found.code == "NONDETERMINISTIC_EAGER_RUN"
    assert "two eager runs" in found.detail


GRADIENTS = [np.array(0.5, np.float32), np.full(9, 1e-3, np.float32), np.full(2, 1e-12, np.float32)]
NAMES = ("loss", "gradient of w", "gradient of b")


def test_gradients_are_found_by_name_and_those_of_rounding_errors_have_the_scale_of_all():
    held = expected(GRADIENTS, NAMES)
    assert held.fp64 is not None
    held.fp64[2][:] = 0
    noise = [GRADIENTS[0], GRADIENTS[1], np.zeros(2, np.float32)]
    names = list(NAMES)
    assert verify(noise, held, {}, names).code == torch_same.PASS
    assert verify(noise[::-1], held, {}, names[::-1]).code == torch_same.PASS
    found = verify([GRADIENTS[0], GRADIENTS[1] * 1.05, GRADIENTS[2]], held, {}, names)
    assert (found.code, found.tol) == (torch_same.FAIL, 1e-2)
    assert found.detail.startswith("gradient of w: 9 of 9 values beyond tol 0.01")


@pytest.mark.parametrize(
    ("names", "detail"),
    [
        (("loss", "gradient of w"), "no gradient of b (2 results, expected 3)"),
        ((*NAMES, "gradient of z"), "an unexpected gradient of z (4 results, expected 3)"),
    ],
)
def test_a_gradient_that_is_missing_or_too_many_fails_by_its_name(names, detail):
    arrays = [*GRADIENTS, np.zeros(1, np.float32)][: len(names)]
    found = verify(arrays, expected(GRADIENTS, NAMES), {}, list(names))
    assert (found.code, found.detail) == (torch_same.FAIL, detail)


def test_the_tolerance_is_that_of_the_type_that_was_computed_in():
    assert verify(GOLDEN, expected(dtype="bf16"), {}).tol == 1e-2
