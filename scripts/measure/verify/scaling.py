"""Scales small results by a power of two before they are compared.

torch's `same` has one absolute tolerance, so zeros pass for outputs of about 1e-9. If the root mean
square of golden's finite values is below 0.5, the result is divided by the power of two that puts it
into [0.5, 1). This does not round: magnitudes only grow, so even subnormals stay exact in their type.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from typing import Literal

import numpy as np

from scripts.core.tensors import CHANGE, GRADIENT, LOSS, OPTIMIZER

Scale = Literal["each", "group"] | Sequence[Hashable]
"""How to scale: each output by its own golden values, or with its group, which is all outputs, or those with the same
label."""
NOISE = 1e-3
"""An output of a group has a separate scale if golden's error against float64 is at most this share of it. It is a tenth
of the tolerance of a training step in float32, so that two correct programs agree at this scale."""


def scale_of(names: Sequence[str]) -> Scale:
    """How outputs with these names are scaled: each separately, or as gradients and their loss.

    A gradient that consists of rounding errors (that of a key's bias before a softmax) has no meaningful
    scale of its own: gradients are one group. So are the changes of the parameters that have one, and those of an
    optimizer's tensors of one name, and those of the buffers of one module: the mean of a batch may be rounding errors
    too, compared with its variance. The loss is scaled separately.
    """
    if LOSS not in names or not any(name.startswith(GRADIENT) for name in names):
        return "each"
    trained = {name.removeprefix(GRADIENT) for name in names if name.startswith(GRADIENT)}
    return [_group(name, trained) for name in names]


def _group(name: str, trained: Collection[str]) -> str:
    """The group of a result of a training step. `trained`: the parameters that have a gradient."""
    if name.startswith(GRADIENT):
        return GRADIENT
    changed = name.removeprefix(CHANGE)
    if changed in trained:
        return CHANGE
    if changed.startswith(OPTIMIZER):
        return changed.removeprefix(OPTIMIZER).partition(".")[0]
    return f"buffers of {changed.rpartition('.')[0]}" if name != LOSS else name


def is_floating(array: np.ndarray) -> bool:
    """Whether its values can be scaled."""
    # numpy does not count ml_dtypes' bfloat16 among its own.
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def exponents(
    golden: Sequence[np.ndarray], scale: Scale, fp64: Sequence[np.ndarray] | None = None
) -> list[int]:
    """The exponent of the power of two by which each output is divided; 0 leaves it unchanged.

    In a group, an output that consists of rounding errors has no meaningful scale. So an output that is smaller than its
    group is scaled as the whole group, unless its values in float64 (`fp64`) show that golden is accurate.
    """
    count = len(golden)
    wide: Sequence[np.ndarray | None] = [None] * count if fp64 is None else fp64
    by_name = {"each": range(count), "group": [0] * count}
    labels = by_name[scale] if isinstance(scale, str) else scale
    groups: dict[Hashable, list[np.ndarray]] = {}
    for label, array in zip(labels, golden, strict=True):
        if is_floating(array):
            groups.setdefault(label, []).append(array)
    least = {label: _exponent(arrays) for label, arrays in groups.items()}

    def exponent(label: Hashable, array: np.ndarray, exact: np.ndarray | None) -> int:
        if not is_floating(array):
            return 0
        # Zeros have no scale of their own, not one of 0.
        own = _exponent([array]) if _magnitudes(array).any() else least[label]
        if own < least[label] and not (exact is not None and is_accurate(array, exact)):
            return least[label]
        return own

    return [exponent(*arguments) for arguments in zip(labels, golden, wide, strict=True)]


def is_accurate(array: np.ndarray, exact: np.ndarray) -> bool:
    """Whether the root mean square error of an output, compared with float64, is at most NOISE of its root mean square."""
    if exact.dtype != np.float64 or array.shape != exact.shape or not np.isfinite(exact).all():
        return False
    # Scaled first: squares of very small values leave float64's range.
    _, power = math.frexp(float(np.abs(exact).max(initial=0.0)))
    values, right = (np.ldexp(operand.astype(np.float64), -power) for operand in (array, exact))
    error = np.linalg.norm(values - right)
    return bool(error <= NOISE * np.linalg.norm(right))


def _exponent(arrays: Sequence[np.ndarray]) -> int:
    """The power that puts the RMS of all finite values into [0.5, 1); 0 at most."""
    largest = max((_magnitudes(array).max(initial=0.0) for array in arrays), default=0.0)
    if largest == 0:
        return 0
    _, power = math.frexp(largest)
    total = count = 0.0
    for array in arrays:
        # Scaled first: squares of very small or very large values leave float64's range.
        values = np.ldexp(_magnitudes(array), -power)
        total += float(np.square(values).sum())
        count += values.size
    _, rest = math.frexp(math.sqrt(total / count))
    return min(0, power + rest)


def _magnitudes(array: np.ndarray) -> np.ndarray:
    values = np.abs(array.astype(np.float64))
    return values[np.isfinite(values)]


def shift(array: np.ndarray, exponent: int) -> np.ndarray:
    """Floating-point values times 2**-exponent, in their own type."""
    if exponent == 0 or not is_floating(array):
        return array
    # A wrong output may be large where golden is small: infinity fails as the number would.
    with np.errstate(over="ignore"):
        if array.dtype.name == "bfloat16":
            return np.ldexp(array.astype(np.float32), -exponent).astype(array.dtype)
        return np.asarray(np.ldexp(array, -exponent), array.dtype)
