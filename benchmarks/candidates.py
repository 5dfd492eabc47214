"""Wrong outputs that replace correct ones (candidates), and which of them are material.

numpy alone: candidates that need the model (other weights, inputs and seeds) are made in
benchmarks/wrong_candidates.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Difference:
    """How far outputs are from golden, in units of each golden output's RMS: the RMS of the errors
    and the largest of them, of the output where each is largest. Infinite where a golden output is
    zero and the other is not. `row`: the RMS of the errors of a row (of the last axis), in units of that row's RMS,
    of the row where it is largest; rows of zeros in golden are left out."""

    rms: float
    largest: float
    row: float


KINDS = tuple(field.name for field in fields(Difference))


def difference(outputs: Sequence[np.ndarray], golden: Sequence[np.ndarray]) -> Difference:
    """Of outputs of the same shapes; integers and booleans are compared as numbers."""
    found = [_difference(got, want) for got, want in zip(outputs, golden, strict=True) if want.size]
    return Difference(*(max(getattr(one, kind) for one in found) for kind in KINDS))


def is_material(candidate: Difference, correct: Sequence[Difference], tolerance: float) -> bool:
    """Whether a candidate differs from golden by more than correct programs do.

    `correct`: correct programs that were run. `tolerance`: what the default tolerance of the dtype
    allows on top (TOLERANCES), as programs for other devices sum in other orders than these.
    """
    return any(
        getattr(candidate, kind) > max(tolerance, *(getattr(one, kind) for one in correct))
        for kind in KINDS
    )


def of_outputs(outputs: Sequence[np.ndarray], seed: int) -> Iterator[tuple[str, Arrays]]:
    """Wrong outputs made of right ones, by name: all outputs changed, and each end alone."""
    rng = np.random.default_rng(seed)
    floats = [i for i, array in enumerate(outputs) if array.dtype.kind == "f" and array.size]
    ends = {} if len(floats) < 2 else {"first output": floats[:1], "last output": floats[-1:]}
    for where, chosen in ({"": floats} | ends).items():
        for name, change in CHANGES.items():
            changed = [
                change(array, rng).astype(array.dtype) if i in chosen else array
                for i, array in enumerate(outputs)
            ]
            yield f"{name}{where and f', {where}'}", changed
    yield from _swapped(outputs)


def _noise(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return array + 0.05 * _rms(array) * rng.standard_normal(array.shape)


def _shuffled(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(array.ravel()).reshape(array.shape)


def _transposed(array: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """The last two axes, in the old shape: what a wrong layout gives."""
    return array if array.ndim < 2 else array.swapaxes(-1, -2).reshape(array.shape)


def _largest(factor: float) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    def change(array: np.ndarray, _: np.random.Generator) -> np.ndarray:
        changed = array.copy()
        changed.flat[np.abs(array).argmax()] *= factor
        return changed

    return change


def _some_zeroed(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """1 % of the values, at least one."""
    changed = array.copy().ravel()
    changed[rng.choice(array.size, max(1, array.size // 100), replace=False)] = 0
    return changed.reshape(array.shape)


def element(array: np.ndarray, factor: float, rms: float = 0.0) -> np.ndarray:
    """One element times a factor, plus `rms` times the output's RMS: that of median magnitude among those that are not
    zero."""
    magnitudes = np.abs(array).ravel()
    places = np.flatnonzero(magnitudes)
    wrong = array.copy()
    if places.size:
        middle = places.size // 2
        at = places[np.argpartition(magnitudes[places], middle)[middle]]
        wrong.flat[at] = array.flat[at] * factor + rms * _rms(array)
    return wrong


def smallest_row(array: np.ndarray, factor: float) -> np.ndarray:
    """The smallest row (of the last axis) that is not zero, times a factor."""
    sizes = np.linalg.norm(_rows(array).astype(np.float64), axis=1)
    wrong = array.copy()
    _rows(wrong)[np.where(sizes > 0, sizes, np.inf).argmin()] *= factor
    return wrong


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1] if array.ndim else 1)


def _to_bf16(array: np.ndarray, _: np.random.Generator) -> np.ndarray:
    bits = array.astype(np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)


def _to_int8(array: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Symmetric, one scale per output."""
    step = np.abs(array).max() / 127
    return np.round(array / step) * step if step else array


CHANGES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "zeros": lambda array, _: np.zeros_like(array),
    "mean": lambda array, _: np.full_like(array, array.mean()),
    "negated": lambda array, _: -array,
    "shuffled": _shuffled,
    "rolled by one": lambda array, _: np.roll(array, 1),
    "reversed": lambda array, _: array.ravel()[::-1].reshape(array.shape),
    "transposed": _transposed,
    "5 % noise": _noise,
    "× 1.05": lambda array, _: array * 1.05,
    "largest × 10": _largest(10),
    "largest zeroed": _largest(0),
    "1 % zeroed": _some_zeroed,
    "one element × 1.01": lambda array, _: element(array, 1.01),
    "one element + 0.01 RMS": lambda array, _: element(array, 1, 0.01),
    "smallest row zeroed": lambda array, _: smallest_row(array, 0),
    "smallest row negated": lambda array, _: smallest_row(array, -1),
    "rounded to bf16": _to_bf16,
    "rounded to int8": _to_int8,
}
"""What is done to each floating-point output, by name."""


def largest_that_passes(
    change: Callable[[np.ndarray, float], np.ndarray],
    output: np.ndarray,
    passes: Callable[[np.ndarray], bool],
) -> float:
    """The largest x, within 5 %, for which `change(output, 1 + x)` passes; infinite if 64 does."""
    low, high = 0.0, 1e-7
    while passes(change(output, 1 + high).astype(output.dtype)):
        low, high = high, 2 * high
        if low > 64:
            return np.inf
    while low and high > 1.05 * low:
        middle = (low * high) ** 0.5
        if passes(change(output, 1 + middle).astype(output.dtype)):
            low = middle
        else:
            high = middle
    return low


def _swapped(outputs: Sequence[np.ndarray]) -> Iterator[tuple[str, Arrays]]:
    """Two outputs of one type in each other's places."""
    kinds = [(array.shape, array.dtype) for array in outputs]
    for first, kind in enumerate(kinds):
        if kind in kinds[first + 1 :]:
            second = kinds.index(kind, first + 1)
            changed = list(outputs)
            changed[first], changed[second] = changed[second], changed[first]
            yield "outputs swapped", changed
            return


def _difference(got: np.ndarray, want: np.ndarray) -> Difference:
    errors = np.abs(got.astype(np.float64) - want.astype(np.float64))
    scale = _rms(want)
    if scale == 0:
        return Difference(*[np.inf if errors.any() else 0.0] * len(KINDS))
    sizes, wrong = (np.linalg.norm(_rows(a).astype(np.float64), axis=1) for a in (want, errors))
    row = float((wrong[sizes > 0] / sizes[sizes > 0]).max())
    return Difference(_rms(errors) / scale, float(errors.max()) / scale, row)


def _rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array.astype(np.float64)))))
