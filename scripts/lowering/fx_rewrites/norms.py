"""Normalization in training steps."""

from __future__ import annotations

import math
import operator

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.lowering.fx_rewrites.edit import Builder, argument, aten, calls, replace, value

_FLOATS = (torch.float32, torch.float64)


def batch_norm_by_deviations(program: ExportedProgram) -> bool:
    """Batch norm in training mode subtracts the mean before it squares, and its running variance is unbiased.

    PyTorch/XLA 2.9 makes it a stablehlo.batch_norm_training. IREE 3.13 computes the variance of that as E[x²] - E[x]²,
    which cancels, and PyTorch/XLA updates the running variance without the factor n / (n - 1) of PyTorch. The formulas
    here are those of torch.nn.BatchNorm2d's documentation. Sums have another order.
    """
    changed = False
    for node in calls(program, aten._native_batch_norm_legit_functional.default):
        image = value(argument(node, "input"))
        static = all(isinstance(size, int) for size in image.shape)
        if not argument(node, "training") or image.dtype not in _FLOATS or not static:
            continue
        results = _normalized(node)
        for user in list(node.users):
            if user.target is operator.getitem:
                replace(user, results[user.args[1]])
        node.graph.erase_node(node)
        changed = True
    return changed


def _normalized(node: fx.Node) -> tuple[fx.Node, ...]:
    """Output, mean and 1 / deviation of the batch, and the new running mean and variance."""
    call, image = Builder(node), argument(node, "input")
    shape = list(value(image).shape)
    dims = [dim for dim in range(len(shape)) if dim != 1]
    count, momentum = math.prod(shape) // shape[1], argument(node, "momentum")

    def spread(of: fx.Node) -> fx.Node:
        return call(aten.view.default, of, [1, -1, *[1] * (len(shape) - 2)])

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
    return (
        output,
        mean,
        inverse,
        moved(argument(node, "running_mean"), mean, 1.0),
        moved(argument(node, "running_var"), variance, count / max(count - 1, 1)),
    )
