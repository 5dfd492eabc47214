"""Single operators that become others: embedding bags, batch norms, slices, scans and tensors without values."""

from __future__ import annotations

import math
import operator

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.lowering.fx_rewrites.edit import (
    WIDE,
    Builder,
    argument,
    aten,
    calls,
    each,
    is_static,
    value,
)

_NO_PADDING = {
    aten.embedding_bag.padding_idx: None,
    aten._embedding_bag.default: -1,
    aten._embedding_bag_forward_only.default: -1,
}
"""Embedding bags, before and after decomposition, with their value of `padding_idx` for no padding."""
_SUM, _MEAN = 0, 1
"""Values of their argument `mode`."""


@each(*_NO_PADDING)
def embedding_bag_as_sum(node: fx.Node) -> dict[int, fx.Node] | None:
    """An embedding bag with as many indices per bag: the rows are gathered, then summed or averaged.

    The sum may be in another order. torch-mlir 20261001 does not lower the operator ("number of output
    elements", tensor<0xi64>), and PyTorch/XLA 2.9 unrolls it: 20 operations per bag.
    """
    size = _bag_size(node)
    if size is None or any(u.target is not operator.getitem or u.args[1] for u in node.users):
        return None
    build = Builder(node)
    bags = build(aten.view.default, argument(node, "indices"), [-1, size])
    rows = build(aten.embedding.default, argument(node, "weight"), bags)
    reduce = aten.sum.dim_IntList if argument(node, "mode") == _SUM else aten.mean.dim
    return {0: build(reduce, rows, [1])}


def _bag_size(node: fx.Node) -> int | None:
    """The indices per bag; None if bags may differ, or for a mode or option that is not rewritten."""
    offsets, indices = argument(node, "offsets"), argument(node, "indices")
    options = ("scale_grad_by_freq", "per_sample_weights", "include_last_offset")
    if argument(node, "mode") not in (_SUM, _MEAN) or value(indices).dim() != 1:
        return None
    if any(argument(node, name) not in (None, False) for name in options):
        return None
    if argument(node, "padding_idx") != _NO_PADDING[node.target]:
        return None
    if offsets.target is not aten.arange.start_step or len(offsets.args) != 3:
        return None
    start, end, step = offsets.args
    whole = start == 0 and end == value(indices).shape[0] and step > 0 and end % step == 0
    return step if whole and end else None


@each(aten._native_batch_norm_legit_functional.default)
def batch_norm_by_deviations(node: fx.Node) -> dict[int, fx.Node] | None:
    """Batch norm in training mode subtracts the mean before it squares, and its running variance is unbiased.

    PyTorch/XLA 2.9 makes it a stablehlo.batch_norm_training. IREE 3.13 computes the variance of that as E[x²] - E[x]²,
    which cancels, and PyTorch/XLA updates the running variance without the factor n / (n - 1) of PyTorch. The formulas
    here are those of torch.nn.BatchNorm2d's documentation. Sums have another order.
    """
    image = argument(node, "input")
    wide = value(image).dtype in WIDE
    if not argument(node, "training") or not wide or not is_static(image):
        return None
    call, shape = Builder(node), list(value(image).shape)
    dims = [dim for dim in range(len(shape)) if dim != 1]
    count, momentum = math.prod(shape) // shape[1], argument(node, "momentum")

    def spread(channels: fx.Node) -> fx.Node:
        return call(aten.view.default, channels, [1, -1, *[1] * (len(shape) - 2)])

    def moved(running: fx.Node, batch: fx.Node, factor: float) -> fx.Node:
        kept = call(aten.mul.Scalar, running, 1 - momentum)
        return call(aten.add.Tensor, kept, call(aten.mul.Scalar, batch, momentum * factor))

    mean = call(aten.mean.dim, image, dims)
    deviation = call(aten.sub.Tensor, image, spread(mean))
    squares = call(aten.mul.Tensor, deviation, deviation)
    variance = call(aten.mean.dim, squares, dims)
    inverse = call(aten.rsqrt.default, call(aten.add.Scalar, variance, argument(node, "eps")))
    output = call(aten.mul.Tensor, deviation, spread(inverse))
    if (weight := argument(node, "weight")) is not None:
        output = call(aten.mul.Tensor, output, spread(weight))
    if (bias := argument(node, "bias")) is not None:
        output = call(aten.add.Tensor, output, spread(bias))
    running_mean = moved(argument(node, "running_mean"), mean, 1.0)
    running_var = moved(argument(node, "running_var"), variance, count / max(count - 1, 1))
    return dict(enumerate((output, mean, inverse, running_mean, running_var)))


@each(aten.slice_scatter.default)
def slice_scatter_as_concatenation(node: fx.Node) -> fx.Node | None:
    """A tensor with a slice replaced is what is before the slice, its replacement, and what is after it.

    torch-mlir 20261001 lowers `slice_scatter` to StableHLO with an index per element up to `end`, also if that is the
    largest int64, as in the gradient of `x[start:]`: it runs out of memory.
    """
    whole, replacement = argument(node, "self"), argument(node, "src")
    dim = argument(node, "dim") % value(whole).dim()
    size = value(whole).shape[dim]
    bounds = (argument(node, "start"), argument(node, "end"))
    known = isinstance(size, int) and all(isinstance(bound, int | None) for bound in bounds)
    if argument(node, "step") != 1 or not known:
        return None
    start, end, _ = slice(*bounds).indices(size)
    build, parts = Builder(node), []
    if start > 0:
        parts.append(build(aten.slice.Tensor, whole, dim, 0, start))
    if end > start:
        if value(replacement).dtype != value(whole).dtype:
            replacement = build.cast(replacement, value(whole).dtype)
        parts.append(replacement)
    if max(start, end) < size:
        parts.append(build(aten.slice.Tensor, whole, dim, max(start, end), size))
    return build(aten.cat.default, parts, dim) if parts else whole


@each(aten.empty_permuted.default)
def empty_as_zeros(node: fx.Node) -> fx.Node | None:
    """A tensor whose values are not set is one of zeros. torch-mlir 20261001 has no `empty_permuted`, which
    training steps of language models have."""
    if not is_static(node):
        return None
    return Builder(node).full(list(value(node).shape), 0, value(node).dtype)


def scan_of_booleans_in_int64(program: ExportedProgram) -> bool:
    """A cumulative sum or product of booleans, of the same values as int64.

    PyTorch/XLA 2.9 lowers the sum to a window over `i1` whose body is an `or`, which IREE 3.13
    refuses and whose values would be wrong; the product it does not capture.
    """
    scans = calls(program, aten.cumsum.default, aten.cumprod.default, with_open=True)
    scans = [node for node in scans if value(node.args[0]).dtype is torch.bool]
    for node in scans:
        node.replace_input_with(node.args[0], Builder(node).cast(node.args[0], torch.int64))
    return bool(scans)
