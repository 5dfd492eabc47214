"""Rules for the values of a tensor argument, chosen so that they suit the operator.

Random values are drawn with numpy, because torch's generators differ between versions. They are
float32 or int64; the caller converts them to the dtype of the tensor. If an operator overwrites
values by index, the indices do not repeat, because the order of writes differs between runtimes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from scripts.features.operators.calls.calling import Call, TensorSpec
from scripts.features.operators.problems import argument_values

_EXACT = {"f16": 2039, "bf16": 251}
"""The largest prime below which a dtype can represent every integer."""
_MOST_EXACT = 16_777_213  # the same for float32
_MASKS = ("b8", "u8")
_EPSILON = 1e-5
"""Of the normalisations whose statistics are computed here."""


@dataclass(frozen=True)
class Draw:
    """The input of a rule: the call, the tensor to fill, the tensors made so far, and a generator.
    `others`: tensors by (argument, place in a list)."""

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
            if isinstance(found := self.argument(name), argument_values.Tensor):
                return found.shape
        raise LookupError(f"{self.call.problem.op} has no tensor {' or '.join(names)}")

    def made(self, name: str) -> torch.Tensor:
        """Return a tensor argument that was made before this one."""
        return self.others[name, None]


Rule = Callable[[Draw], np.ndarray | torch.Tensor]


# Floating-point values


def normal(draw: Draw) -> np.ndarray:
    return draw.random.standard_normal(draw.shape, np.float32)


def wide(draw: Draw) -> np.ndarray:
    """Return normal values of standard deviation 3. They lie on both sides of the kinks of
    activations, and give an uneven softmax."""
    return 3 * normal(draw)


def varied(draw: Draw) -> np.ndarray:
    """Return normal values whose mean and spread differ for each index of each dimension. In every
    row, the mean of independent values is near zero and their variance near one, so a constant
    would pass as their mean or variance. Here they differ between rows and along all dimensions."""
    found = normal(draw)
    along = [
        [size if i == axis else 1 for i in range(len(draw.shape))]
        for axis, size in enumerate(draw.shape)
    ]
    for shape in along:
        found *= draw.random.uniform(0.5, 1.5, shape).astype(np.float32)
    found += np.float32(0.5)
    for shape in along:
        found += draw.random.standard_normal(shape, np.float32)
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


def uniform(low: float, high: float) -> Rule:
    return lambda draw: draw.random.uniform(low, high, draw.shape).astype(np.float32)


def special(draw: Draw) -> np.ndarray:
    """Return normal values, some of them replaced by NaN and infinities of both signs."""
    found = normal(draw)
    chosen = draw.random.integers(0, 12, draw.shape)
    for place, value in enumerate((np.nan, np.inf, -np.inf)):
        found = np.where(chosen == place, np.float32(value), found)
    return found


# Values that are compared, booleans and integers


def distinct(draw: Draw) -> np.ndarray:
    """Return values without ties along any dimension, as far as the dtype has enough values. The
    order of equal values differs between runtimes."""
    count = _EXACT.get(draw.dtype, _MOST_EXACT)
    step = int(draw.random.integers(count // 3, count // 2))
    places = np.arange(math.prod(draw.shape), dtype=np.int64).reshape(draw.shape)
    found = (places * step + int(draw.random.integers(count))) % count - count // 2
    if draw.spec.dtype.is_floating_point:
        return (found / 2.0 ** (count.bit_length() - 3)).astype(np.float32)
    return found


def near(numbers: Sequence[float]) -> Rule:
    """Return a rule for values near `numbers`, some of them equal, so that comparisons differ."""
    choices = np.asarray([n + step for n in numbers for step in (-1, 0, 0, 1)])
    return lambda draw: draw.random.choice(choices, draw.shape)


def coins(draw: Draw) -> np.ndarray:
    """Return booleans; True and False are equally likely."""
    return draw.random.random(draw.shape, np.float32) < 0.5


def gated_coins(draw: Draw) -> np.ndarray:
    """Return coins with some constant slices, so that `any` and `all` of a slice can be either."""
    found = coins(draw)
    rank, dims = len(draw.shape), draw.argument("dim")
    reduced = [dims] if isinstance(dims, int) else list(dims or range(rank))
    axes = {axis % max(1, rank) for axis in reduced}
    slices = [1 if axis in axes else size for axis, size in enumerate(draw.shape)]
    gate = draw.random.random(slices, np.float32) < 0.5
    return found & gate if draw.call.base == "any" else found | gate


def whole(draw: Draw) -> np.ndarray:
    """Return small integers, of both signs if the dtype is signed."""
    return draw.random.integers(0 if draw.dtype == "u8" else -8, 8, draw.shape)


def whole_positive(draw: Draw) -> np.ndarray:
    return draw.random.integers(1, 8, draw.shape)


# Indices


def whole_below(draw: Draw, limit: int) -> np.ndarray:
    """Return indices from 0 to `limit` - 1. Raises ValueError if there are none."""
    if limit < 1 and draw.spec.tensor.elements:
        raise ValueError(f"{draw.spec.argument} of {draw.call.problem.op}: no index below {limit}")
    return draw.random.integers(0, max(1, limit), draw.shape)


def rows_of(argument: str) -> Rule:
    """Return a rule for row indices of another argument."""
    return lambda draw: whole_below(draw, draw.shape_of(argument)[0])


def below_argument(argument: str) -> Rule:
    """Return a rule for indices below the number in another argument."""
    return lambda draw: whole_below(draw, int(draw.argument(argument)))


def along_dim(draw: Draw) -> np.ndarray:
    """Return indices into dimension `dim` of `self`; they may repeat."""
    return whole_below(draw, _size(draw))


def along_dim_once(draw: Draw) -> np.ndarray:
    """Return such indices without repetition along that dimension, if there are enough."""
    size, shape = _size(draw), list(draw.shape)
    if not shape:
        return along_dim(draw)
    axis = int(draw.argument("dim")) % len(shape) if len(shape) > 1 else 0
    if shape[axis] > size:
        return along_dim(draw)
    order = draw.random.random([*shape[:axis], size, *shape[axis + 1 :]]).argsort(axis)
    return np.take(order, range(shape[axis]), axis)


def _size(draw: Draw) -> int:
    """Return the size of dimension `dim` of `self`."""
    shape = draw.shape_of("self", "input")
    return shape[int(draw.argument("dim"))] if shape else 1


def elements_of_self(draw: Draw) -> np.ndarray:
    return whole_below(draw, math.prod(draw.shape_of("self")))


def classes(draw: Draw) -> np.ndarray:
    """Return targets of a loss: class indices of the second (or only) dimension of `self`."""
    scores = draw.shape_of("self")
    return whole_below(draw, scores[1] if len(scores) > 1 else scores[0])


def labels(draw: Draw) -> np.ndarray:
    """Return CTC targets: all classes except the blank, which is 0."""
    return draw.random.integers(1, max(2, draw.shape_of("log_probs")[-1]), draw.shape)


def offsets(draw: Draw) -> np.ndarray:
    """Return the offsets of bags in the indices, in ascending order from 0."""
    found = np.sort(whole_below(draw, draw.shape_of("indices")[0] + 1))
    found[:1] = 0
    return found


def list_element(draw: Draw) -> np.ndarray:
    """Return an element of the index list of `index` and `index_put`: a mask, or indices. A mask
    has one dimension for each that it indexes."""
    if draw.dtype in _MASKS:
        return _mask(draw)
    listed = draw.call.arguments["indices"]
    before = listed[: draw.spec.place or 0]
    masks = [
        item for item in before if isinstance(item, argument_values.Tensor) and item.dtype in _MASKS
    ]
    size = draw.shape_of("self")[len(before) + sum(len(mask.shape) - 1 for mask in masks)]
    tensors = [item for item in listed if isinstance(item, argument_values.Tensor)]
    count = math.prod(draw.shape)
    writes = draw.call.base.startswith(("index_put", "_index_put", "_unsafe_index_put"))
    is_one_of_several = len(tensors) > 1 and tensors[0] != draw.spec.tensor
    may_repeat = not writes or draw.argument("accumulate") or is_one_of_several
    if may_repeat or size < count or count == 0:
        return whole_below(draw, size)
    return draw.random.permutation(size)[:count].reshape(draw.shape)


def _mask(draw: Draw) -> np.ndarray:
    """Return a mask. If `values` has several rows, the mask has as many True elements as rows."""
    count = math.prod(draw.shape)
    given = draw.argument("values")
    rows = given.shape[0] if isinstance(given, argument_values.Tensor) and given.shape else 1
    if rows == 1:
        return draw.random.random(draw.shape) < 0.5
    if rows > count:
        raise ValueError(f"{draw.call.problem.op}: {rows} values for a mask of {count}")
    found = np.zeros(count, bool)
    found[draw.random.permutation(count)[:rows]] = True
    return found.reshape(draw.shape)


# What a forward operator saves for its backward operator, computed from the inputs


def of_max_pool(draw: Draw) -> torch.Tensor:
    """Return the indices that the forward operator returns for `self`."""
    forward = {
        "max_pool2d_with_indices_backward": torch.ops.aten.max_pool2d_with_indices.default,
        "max_pool3d_with_indices_backward": torch.ops.aten.max_pool3d_with_indices.default,
        "adaptive_max_pool2d_backward": torch.ops.aten.adaptive_max_pool2d.default,
    }[draw.call.base]
    if draw.call.base.startswith("adaptive"):
        return forward(draw.made("self"), list(draw.shape[-2:]))[1]
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    return forward(draw.made("self"), *(draw.argument(name) for name in names))[1]


def softmax_output(draw: Draw) -> np.ndarray:
    """Return probabilities along dimension `dim`."""
    return _softmax(wide(draw), int(draw.argument("dim"))) if draw.shape else np.ones(())


def log_softmax_output(draw: Draw) -> np.ndarray:
    """Return logarithms of probabilities along dimension `dim`, or over classes."""
    if not draw.shape:
        return np.zeros(())
    dim = draw.argument("dim")
    axis = int(dim) if dim is not None else (1 if len(draw.shape) > 1 else 0)
    return np.log(_softmax(wide(draw), axis))


def _softmax(logits: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def layer_norm(draw: Draw) -> torch.Tensor:
    """Return `mean` or `rstd` of `input` over the dimensions of `normalized_shape`."""
    rows = draw.made("input").float()
    normalized = len(draw.argument("normalized_shape"))
    return _moment(draw, rows, range(rows.dim() - normalized, rows.dim()))


def group_norm(draw: Draw) -> torch.Tensor:
    """Return `mean` or `rstd` of `input` per sample and group."""
    groups = int(draw.argument("N")), int(draw.argument("group"))
    return _moment(draw, draw.made("input").float().reshape(*groups, -1), [2])


def batch_norm(draw: Draw) -> torch.Tensor | np.ndarray:
    """Return `save_mean` or `save_invstd` of `input` per channel."""
    rows = draw.made("input").float()
    if math.prod(draw.shape) != rows.shape[1]:
        return positive(draw)
    return _moment(draw, rows, [axis for axis in range(rows.dim()) if axis != 1])


def _moment(draw: Draw, rows: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    if "mean" in draw.spec.argument:
        return rows.mean(list(axes)).reshape(draw.shape)
    return (rows.var(list(axes), unbiased=False) + _EPSILON).rsqrt().reshape(draw.shape)


def attention(draw: Draw) -> torch.Tensor:
    """Return `out` or `logsumexp` of attention, for its backward operator."""
    arguments = {name: draw.argument(name) for name in ("dropout_p", "is_causal", "scale")}
    given = {name: value for name, value in arguments.items() if value is not None}
    if ("attn_mask", None) in draw.others:
        given["attn_mask"] = draw.made("attn_mask")
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    out, logsumexp = forward(draw.made("query"), draw.made("key"), draw.made("value"), **given)
    return out if draw.spec.argument == "out" else logsumexp
