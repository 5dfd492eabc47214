"""Valid indices for operators that read or write by index.

If an operator overwrites values by index, the indices do not repeat, because the order of writes
differs between runtimes.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from scripts.features.operators.calls.draws import Draw, whole_below
from scripts.features.operators.problems import values


def rows_of(argument: str):
    """Return a rule for row indices of another argument."""

    def rule(draw: Draw) -> np.ndarray:
        return whole_below(draw, draw.shape_of(argument)[0])

    return rule


def below_argument(argument: str):
    """Return a rule for indices below the number in another argument."""

    def rule(draw: Draw) -> np.ndarray:
        return whole_below(draw, int(draw.argument(argument)))

    return rule


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


def elements_of_self(draw: Draw) -> np.ndarray:
    """Return indices into all elements of `self`."""
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
    count = draw.shape_of("indices")[0]
    found = np.sort(whole_below(draw, count + 1))
    found[:1] = 0
    return found


def list_element(draw: Draw) -> np.ndarray:
    """Return an element of the index list of `index` and `index_put`: a mask, or indices."""
    listed = draw.call.arguments["indices"]
    place = draw.spec.place or 0
    dims = [_dims_taken(item) for item in listed[:place]]
    first = sum(dims)
    if draw.dtype in ("b8", "u8"):
        return _mask(draw)
    size = draw.shape_of("self")[first]
    alone = [item for item in listed if isinstance(item, values.Tensor)]
    if draw.call.base.startswith(("index_put", "_index_put", "_unsafe_index_put")):
        return _written_once(draw, alone, size)
    return whole_below(draw, size)


def _written_once(draw: Draw, listed: list[values.Tensor], size: int) -> np.ndarray:
    """Return indices, without repetition if values are not accumulated and there are enough."""
    count = math.prod(draw.shape)
    adds = bool(draw.argument("accumulate"))
    if adds or size < count or count == 0:
        return whole_below(draw, size)
    if len(listed) > 1 and listed[0] != draw.spec.tensor:
        return whole_below(draw, size)
    return draw.random.permutation(size)[:count].reshape(draw.shape)


def _mask(draw: Draw) -> np.ndarray:
    """Return a mask. If `values` has several rows, the mask has as many True elements as rows."""
    count = math.prod(draw.shape)
    given = draw.argument("values")
    rows = given.shape[0] if isinstance(given, values.Tensor) and given.shape else 1
    if rows == 1:
        return draw.random.random(draw.shape) < 0.5
    if rows > count:
        raise ValueError(f"{draw.call.problem.op}: {rows} values for a mask of {count}")
    found = np.zeros(count, bool)
    found[draw.random.permutation(count)[:rows]] = True
    return found.reshape(draw.shape)


def _dims_taken(item: object) -> int:
    """Return how many dimensions of `self` an element of the list indexes."""
    is_mask = isinstance(item, values.Tensor) and item.dtype in ("b8", "u8")
    return len(item.shape) if isinstance(item, values.Tensor) and is_mask else 1


def _size(draw: Draw) -> int:
    """Return the size of dimension `dim` of `self`."""
    shape = draw.shape_of("self", "input")
    return shape[int(draw.argument("dim"))] if shape else 1


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
