"""Bounds the error of each element and each row of an output.

torch's `same` (torch_same.py) averages over an output, and its absolute tolerance is that of the largest values. So one
wrong element of many passes, and so does a wrong row of small values. Here an error counts at the scale of its row (what
the last axis has). One beyond the tolerance passes only if eager's own rounding is about as large in some place of
the output: correct programs sum in other orders, but round the same values to the same type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

TOLERANCES = {"f32": 1e-4, "f16": 1e-3, "bf16": 1e-2}
"""The tolerance of elements and rows by the model's dtype, where the model has none of its own. 1e-4 is that of
PyTorch's benchmarks for float32, which another order of summation may exceed; here eager's rounding is added."""

ELEMENT = 16.0
"""How many times eager's largest error that of an element may be."""
ROW = 16.0
"""How many times the RMS of eager's errors in its worst row that of a row may be."""

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number. Eager's error counts as at least this part of the output's RMS, because its
result may be exact by chance."""

BLOCK = 1 << 20
"""How many values are compared at a time: copies in float64 stay small."""


@dataclass(frozen=True)
class _Rounding:
    """Eager's errors against float64: the largest one, and the RMS of those of the worst row."""

    element: float
    row: float


def problems(
    actual: Sequence[np.ndarray],
    golden: Sequence[np.ndarray],
    fp64: Sequence[np.ndarray],
    dtypes: Sequence[str],
    names: Sequence[str],
    tol: float,
) -> list[str]:
    """The error messages about outputs that `same` accepts, one per output.

    `golden` are eager's results, and `fp64` the exact ones. Let x be an element of `fp64` and r the RMS of its row. An
    element may be off by tol · (|x| + r) + ELEMENT · E, where E is eager's largest error, and the RMS of a row's errors
    may be 2 · tol · r + ROW · R, where R is that of eager's worst row. Elements that are not finite in float64 are
    left out, and so are outputs of zeros, which have no scale, and those whose float64 result is of another type.
    """
    messages: list[str] = []
    for got, want, exact, dtype, name in zip(actual, golden, fp64, dtypes, names, strict=True):
        comparable = exact.dtype == np.float64 and exact.shape == want.shape and want.size
        if not comparable or dtype not in EPSILON:
            continue
        with np.errstate(over="ignore", under="ignore"):
            problem = _judge(got, want, exact, dtype, tol)
        if problem:
            messages.append(f"{name}: {problem}")
    return messages


def _judge(got: np.ndarray, want: np.ndarray, fp64: np.ndarray, dtype: str, tol: float) -> str:
    """What is wrong with an output, or ""."""
    arrays = [array.reshape(-1, (array.shape or (1,))[-1]) for array in (got, want, fp64)]
    rounding = _rounding(arrays, EPSILON[dtype])
    if rounding is None:
        return ""
    for first, (actual, _, exact) in _blocks(arrays):
        error, size = np.abs(actual - exact), _rms(exact)
        allowed = tol * (np.abs(exact) + size) + ELEMENT * rounding.element
        if (error > allowed).any():
            row, column = divmod(int(np.argmax(error / allowed)), error.shape[1])
            at = _index(first + row, column, fp64.shape)
            return (
                f"element {at}: {actual[row, column]:.6g}, expected {exact[row, column]:.6g}; its error is "
                f"{error[row, column]:.3g}, allowed {allowed[row, column]:.3g} (tol {tol:g} of it and of its row's RMS "
                f"{size[row, 0]:.3g}, and {ELEMENT:g} × eager's largest error {rounding.element:.3g})"
            )
        error = _rms(error)
        allowed = 2 * tol * size + ROW * rounding.row
        if (error > allowed).any():
            row = int(np.argmax(error / allowed))
            return (
                f"row {_index(first + row, 0, fp64.shape)[:-1]}: the RMS of its errors is {error[row, 0]:.3g}, allowed "
                f"{allowed[row, 0]:.3g} (2 × tol {tol:g} of its RMS {size[row, 0]:.3g}, and {ROW:g} × that of eager's worst "
                f"row {rounding.row:.3g})"
            )
    return ""


def _rounding(arrays: Sequence[np.ndarray], epsilon: float) -> _Rounding | None:
    """Eager's errors; None if the exact result has no scale: zeros, or squares beyond float64's range."""
    largest = row = squares = 0.0
    for _, (_, eager, exact) in _blocks(arrays):
        error = np.abs(eager - exact)
        largest = max(largest, float(error.max()))
        row = max(row, float(_rms(error).max()))
        squares += float(np.square(exact).sum())
    if not 0 < squares < np.inf:
        return None
    least = epsilon * float(np.sqrt(squares / arrays[-1].size))
    return _Rounding(max(largest, least), max(row, least))


def _blocks(arrays: Sequence[np.ndarray]) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Rows of the three arrays in float64, with the number of the first, and 0 where the last array is not finite."""
    count, width = arrays[0].shape
    step = max(1, BLOCK // width)
    for first in range(0, count, step):
        block = [array[first : first + step].astype(np.float64) for array in arrays]
        finite = np.isfinite(block[-1])
        if not finite.all():
            block = [np.where(finite, values, 0.0) for values in block]
        yield first, block


def _rms(values: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(np.square(values), axis=1, keepdims=True))


def _index(row: int, column: int, shape: Sequence[int]) -> list[int]:
    outer = np.unravel_index(row, shape[:-1]) if len(shape) > 1 else ()
    return [*map(int, outer), column]
