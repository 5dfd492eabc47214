"""Outputs that differ by the noise of run-time rounding pass; differences with a structure fail."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import candidates
from scripts.measure.verify import noise
from scripts.measure.verify.torch_same import Tolerance, compare

NOISE = 0.05
RNG = np.random.default_rng(0)
EXACT = RNG.standard_normal((16, 512))


def run(spread: float, seed: int, scale: float = 1.0) -> np.ndarray:
    """What a right program gives: the exact result, off by noise of its own."""
    own = np.random.default_rng(seed).standard_normal(EXACT.shape)
    return (scale * (EXACT + spread * own)).astype(np.float32)


def judge(got, want=None, fp64=None) -> str:
    want = run(0.02, 1) if want is None else want
    return noise.judge(got, want, run(0.02, 2).astype(np.float64) if fp64 is None else fp64, NOISE)


@given(st.integers(10, 10_000), st.floats(0, 0.03))
def test_right_programs_pass(seed, spread):
    assert judge(run(spread, seed)) == ""


@given(st.sampled_from([1e-6, 1.0, 1e6]))
def test_the_scale_of_the_output_does_not_matter(scale):
    want, fp64 = run(0.02, 1, scale), run(0.02, 2, scale).astype(np.float64)
    assert judge(run(0.02, 3, scale), want, fp64) == ""
    assert judge(run(0.06, 3, scale), want, fp64).startswith("RMS difference from golden")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zeros", "scale against golden -100"),
        ("5 % noise", "RMS difference from golden"),
        ("× 1.05", "scale against golden +4"),
        ("rolled by one", "scale against golden -"),
        ("largest × 10", "scale against golden +1"),
        ("largest zeroed", "largest difference from golden"),
        ("1 % zeroed", "largest difference from golden"),
        ("rounded to bf16", "distinct values, golden has 81"),
        ("rounded to int8", "distinct values, golden has 81"),
    ],
)
def test_a_wrong_output_says_what_is_wrong(name, said):
    changed = candidates.CHANGES[name](run(0.02, 3), np.random.default_rng(99)).astype(np.float32)
    assert said in judge(changed)


def test_an_offset_and_wrong_top_values_are_seen():
    right = run(0.02, 3)
    assert "offset against golden +2" in judge(right + np.float32(0.02))
    top = right.copy()
    top.flat[noise._largest(run(0.02, 1))] *= 0.95
    assert "largest values" in judge(top)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_a_wrong_row_is_seen_at_its_own_scale(scale):
    """Of 1024 rows, one differs as much as the noise allows to no row. The RMS over all hardly changes."""
    exact = np.random.default_rng(5).standard_normal((1024, 64))
    exact[700] *= scale
    golden = (exact * (1 + 0.02 * RNG.standard_normal(exact.shape))).astype(np.float32)
    right = (exact * (1 + 0.02 * RNG.standard_normal(exact.shape))).astype(np.float32)
    assert noise.judge(right, golden, exact, NOISE) == ""
    wrong = right.copy()
    wrong[700] += np.float32(0.16 * scale) * RNG.standard_normal(64).astype(np.float32)
    found = noise.judge(wrong, golden, exact, NOISE)
    assert found.startswith("RMS difference of row [700] from golden"), found


def test_a_row_smaller_than_the_noise_has_the_scale_of_the_noise():
    exact = np.random.default_rng(5).standard_normal((64, 512))
    exact[9] = 0
    right = exact.astype(np.float32)
    right[9] = 0.004 * RNG.standard_normal(512)
    assert noise.judge(right, exact.astype(np.float32), exact, NOISE) == ""
    right[9] = 0.006 * RNG.standard_normal(512)
    assert "of row [9]" in noise.judge(right, exact.astype(np.float32), exact, NOISE)


def test_what_is_near_golden_alone_fails_against_float64():
    want = run(0.03, 1)
    further = RNG.standard_normal(EXACT.shape).astype(np.float32)
    found = noise.judge(want + np.float32(0.045) * further, want, EXACT, NOISE)
    assert found.startswith("RMS difference from float64")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_fails(value):
    got = run(0.02, 3)
    got[0, 0] = value
    assert "not finite" in judge(got)


def test_golden_of_zeros_has_no_noise():
    assert "no scale" in judge(run(0.02, 3), np.zeros_like(EXACT, np.float32))


def test_it_takes_the_place_of_torchs_rule_beyond_the_tolerance():
    golden, fp64 = [run(0.02, 1)], [run(0.02, 2).astype(np.float64)]
    right, allowed = [run(0.02, 3)], Tolerance(1e-3, noise=NOISE)
    assert compare(right, golden, fp64, allowed).code == "PASS"
    wrong = compare([right[0] * np.float32(1.05)], golden, fp64, allowed)
    assert wrong.code == "FAIL"
    assert wrong.detail.startswith("output 0: scale against golden")
    # By torch's own rule it is as near to float64 as 2 × golden is.
    assert compare([right[0] * np.float32(1.02)], golden, fp64, Tolerance(1e-3)).code == "PASS"


def test_integers_are_compared_as_ever():
    golden = [np.arange(1000)]
    found = compare([golden[0] + 5], golden, None, Tolerance(1e-6, noise=NOISE))
    assert found.code == "FAIL"
