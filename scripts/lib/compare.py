"""Compare a runtime's outputs with golden, and bound its error by the float64 reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PASS = "PASS"
FAIL = "FAIL"

TOLERANCES = {
    "f32": {"atol": 1e-3, "rtol": 1e-3},
    "f16": {"atol": 1e-2, "rtol": 1e-2},
    "bf16": {"atol": 1e-1, "rtol": 5e-2},
}
"""By the model's dtype: |actual - golden| <= atol * min(1, rms(golden)) + rtol * |golden|.

As numpy.allclose, but for the scale: outputs of about 1e-9 must not pass for zeros."""


@dataclass(frozen=True)
class Comparison:
    """Verdict over all outputs together.

    `max_abs_error` is against golden, `rmse_vs_fp64` against the float64 reference; either is
    None where it has no finite value. `detail` names the output that failed and by how much.
    """

    code: str
    detail: str
    max_abs_error: float | None
    rmse_vs_fp64: float | None


def compare(
    actual: Sequence[np.ndarray],
    golden: Sequence[np.ndarray],
    fp64: Sequence[np.ndarray] | None,
    atol: float,
    rtol: float,
) -> Comparison:
    """Compare outputs one by one: count, shape, NaN and infinity places, then values.

    Integers and booleans must be equal, floating-point values are compared in float64.
    """
    problems: list[str] = []
    if len(actual) != len(golden):
        problems.append(f"{len(actual)} outputs, expected {len(golden)}")
    errors: list[float] = []
    for index, (got, want) in enumerate(zip(actual, golden, strict=False)):
        problem, error = _compare_one(np.asarray(got), np.asarray(want), atol, rtol)
        if problem:
            problems.append(f"output {index}: {problem}")
        if error is not None:
            errors.append(error)
    shapes_agree = len(actual) == len(golden) and len(errors) == len(golden)
    return Comparison(
        code=FAIL if problems else PASS,
        detail="; ".join(problems[:3]),
        max_abs_error=_finite(max(errors)) if errors else None,
        rmse_vs_fp64=rmse(actual, fp64) if fp64 is not None and shapes_agree else None,
    )


def _compare_one(
    got: np.ndarray, want: np.ndarray, atol: float, rtol: float
) -> tuple[str, float | None]:
    """(what is wrong or "", largest finite absolute error or None if shapes differ)."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}", None
    if got.size == 0:
        return "", 0.0
    if not np.issubdtype(want.dtype, np.floating):
        return _compare_exactly(got, want)
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    atol *= _scale(want[finite])
    with np.errstate(invalid="ignore"):
        same_special = np.array_equal(got[~finite], want[~finite], equal_nan=True)
        got_finite = np.isfinite(got)
        error = np.abs(got - want)
    both = finite & got_finite
    worst = float(error[both].max()) if both.any() else 0.0
    if not same_special:
        return "NaN or infinity where golden has another", worst
    if not got_finite[finite].all():
        count = int((finite & ~got_finite).sum())
        return f"{count} of {got.size} values are NaN or infinite, golden's are not", worst
    wrong = finite & (error > atol + rtol * np.abs(np.where(finite, want, 0.0)))
    if wrong.any():
        at = tuple(
            int(i)
            for i in np.unravel_index(int(np.argmax(np.where(wrong, error, -1.0))), error.shape)
        )
        return (
            f"{int(wrong.sum())} of {got.size} values out of tolerance (atol {atol:g}, "
            f"rtol {rtol:g}); worst at {list(at)}: {got[at]:.6g}, expected {want[at]:.6g}"
        ), worst
    return "", worst


def _scale(values: np.ndarray) -> float:
    """Root mean square of the values, 1 at most; 1 where they are all zero."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    # Scaled first: squares of very small or very large values leave float64's range.
    return min(1.0, largest * float(np.sqrt(np.mean(np.square(values / largest)))))


def _compare_exactly(got: np.ndarray, want: np.ndarray) -> tuple[str, float]:
    """Integers and booleans, in their own type: float64 cannot tell 2**53 from 2**53 + 1."""
    wrong = got != want
    if not wrong.any():
        return "", 0.0
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return (
        f"{int(wrong.sum())} of {got.size} values differ; first at {list(at)}: {got[at]}, "
        f"expected {want[at]}"
    ), float(error.max())


def rmse(actual: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> float | None:
    """Root mean square error over all elements of all outputs where both are finite."""
    total = count = 0.0
    for got, want in zip(actual, reference, strict=True):
        with np.errstate(invalid="ignore"):  # infinity against infinity
            difference = np.asarray(got, np.float64) - np.asarray(want, np.float64)
        finite = np.isfinite(difference)
        total += float(np.square(difference[finite]).sum())
        count += int(finite.sum())
    return _finite(float(np.sqrt(total / count))) if count else None


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
