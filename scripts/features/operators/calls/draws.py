"""Random values for a tensor argument, chosen so that they suit the operator.

They are drawn with numpy, because torch's generators differ between versions. They are float32 or
int64; the caller converts them to the dtype of the tensor.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from scripts.features.operators.calls.calling import Call, TensorSpec
from scripts.features.operators.problems import values

_EXACT = {"f16": 2039, "bf16": 251}
"""The largest prime below which a dtype can represent every integer."""
_MOST_EXACT = 16_777_213  # the same for float32


@dataclasses.dataclass(frozen=True)
class Draw:
    """The input of a rule: the call, the tensor to fill, the tensors made so far, and a generator.

    `others`: tensors by (argument, place in a list).
    """

    call: Call
    spec: TensorSpec
    others: dict[tuple[str, int | None], torch.Tensor]
    random: np.random.Generator

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> str:
        """Its name in traces."""
        return self.spec.tensor.dtype

    def argument(self, name: str) -> Any:
        """Return the value of another argument, or its default; for a tensor, its type."""
        if name in self.call.arguments:
            return self.call.arguments[name]
        for declared in self.call.operator._schema.arguments:
            if declared.name == name and declared.has_default_value():
                return declared.default_value
        return None

    def shape_of(self, *names: str) -> tuple[int, ...]:
        """Return the shape of the first of these arguments that is a tensor. Raises LookupError."""
        for name in names:
            if isinstance(found := self.argument(name), values.Tensor):
                return found.shape
        raise LookupError(f"{self.call.problem.op} has no tensor {' or '.join(names)}")

    def made(self, name: str) -> torch.Tensor:
        """Return a tensor argument that was made before this one."""
        return self.others[name, None]


def normal(draw: Draw) -> np.ndarray:
    """Return standard normal values."""
    return draw.random.standard_normal(draw.shape, np.float32)


def wide(draw: Draw) -> np.ndarray:
    """Return normal values of standard deviation 3.

    They lie on both sides of the kinks of activations, and give an uneven softmax.
    """
    return 3 * normal(draw)


def varied(draw: Draw) -> np.ndarray:
    """Return normal values whose mean and spread differ for each index of each dimension.

    In every row, the mean of independent values is near zero and their variance near one, so a
    constant would pass as their mean or variance. Here they differ between rows and along all
    dimensions.
    """
    found = normal(draw)
    for axis, size in enumerate(draw.shape):
        along = [size if i == axis else 1 for i in range(len(draw.shape))]
        found *= draw.random.uniform(0.5, 1.5, along).astype(np.float32)
    found += np.float32(0.5)
    for axis, size in enumerate(draw.shape):
        along = [size if i == axis else 1 for i in range(len(draw.shape))]
        found += draw.random.standard_normal(along, np.float32)
    return found


def positive(draw: Draw) -> np.ndarray:
    """Return values around 1, from about 0.2 to 5."""
    return np.exp(np.float32(0.5) * normal(draw))


def away_from_zero(draw: Draw) -> np.ndarray:
    """Return values of both signs that are at least 0.5 from zero, for divisors."""
    found = normal(draw)
    return found + np.copysign(np.float32(0.5), found)


def near_one(draw: Draw) -> np.ndarray:
    """Return values near 1, whose products stay in range."""
    return 1 + np.float32(0.1) * normal(draw)


def uniform(low: float, high: float):
    """Return a rule for values between two numbers."""

    def rule(draw: Draw) -> np.ndarray:
        return draw.random.uniform(low, high, draw.shape).astype(np.float32)

    return rule


def distinct(draw: Draw) -> np.ndarray:
    """Return values without ties along any dimension, as far as the dtype has enough values.

    The order of equal values differs between runtimes.
    """
    count = _EXACT.get(draw.dtype, _MOST_EXACT)
    step = int(draw.random.integers(count // 3, count // 2))
    places = np.arange(math.prod(draw.shape), dtype=np.int64).reshape(draw.shape)
    found = (places * step + int(draw.random.integers(count))) % count - count // 2
    if draw.spec.dtype.is_floating_point:
        return (found / 2.0 ** (count.bit_length() - 3)).astype(np.float32)
    return found


def scaled(values_: np.ndarray, terms: int) -> np.ndarray:
    """Return values scaled so that sums of `terms` products with normal values are about normal."""
    return values_ * np.float32(1 / math.sqrt(max(1, terms)))


def coins(draw: Draw) -> np.ndarray:
    """Return booleans; True and False are equally likely."""
    return draw.random.random(draw.shape, np.float32) < 0.5


def gated_coins(draw: Draw) -> np.ndarray:
    """Return coins with some constant slices, so that `any` and `all` of a slice can be either."""
    found = coins(draw)
    gate = draw.random.random(_slices(draw), np.float32) < 0.5
    return found & gate if draw.call.base == "any" else found | gate


def _slices(draw: Draw) -> list[int]:
    """Return the shape with 1 for the dimensions that are reduced."""
    dims = draw.argument("dim")
    axes = [dims] if isinstance(dims, int) else list(dims or range(len(draw.shape)))
    return [1 if i in {a % max(1, len(draw.shape)) for a in axes} else n for i, n in enumerate(draw.shape)]  # fmt: skip


def whole(draw: Draw) -> np.ndarray:
    """Return small integers, of both signs if the dtype is signed."""
    low = 0 if draw.dtype == "u8" else -8
    return draw.random.integers(low, 8, draw.shape)


def whole_positive(draw: Draw) -> np.ndarray:
    """Return small positive integers."""
    return draw.random.integers(1, 8, draw.shape)


def whole_below(draw: Draw, limit: int) -> np.ndarray:
    """Return indices from 0 to `limit` - 1. Raises ValueError if there are none."""
    if limit < 1 and draw.spec.tensor.elements:
        raise ValueError(f"{draw.spec.argument} of {draw.call.problem.op}: no index below {limit}")
    return draw.random.integers(0, max(1, limit), draw.shape)


def softmax(logits: np.ndarray, axis: int) -> np.ndarray:
    """Return probabilities along an axis."""
    powers = np.exp(logits - logits.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def special(draw: Draw) -> np.ndarray:
    """Return normal values, some of them replaced by NaN and infinities of both signs."""
    found = normal(draw)
    chosen = draw.random.integers(0, 12, draw.shape)
    for place, value in enumerate((np.nan, np.inf, -np.inf)):
        found = np.where(chosen == place, np.float32(value), found)
    return found


def near(numbers: Sequence[float]):
    """Return a rule for values near `numbers`, some of them equal, so that comparisons differ."""

    def rule(draw: Draw) -> np.ndarray:
        choices = np.asarray([n + step for n in numbers for step in (-1, 0, 0, 1)])
        return draw.random.choice(choices, draw.shape)

    return rule
