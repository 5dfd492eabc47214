"""Normalisation in train mode."""

from __future__ import annotations

import math
import operator

from torch import fx
from torch.export import ExportedProgram

from scripts.lib.lowering.fx_rewrites.edit import Builder, argument, aten, calls, value

_BATCH_NORMS = (aten._native_batch_norm_legit_functional.default,)
_RUNNING_VAR = 4
"""The place of the new running variance among the results."""


def unbiased_running_variance(program: ExportedProgram) -> bool:
    """The new running variance of a batch norm in train mode, from the variance of the sample.

    PyTorch's documentation of BatchNorm2d: the input is normalised with the biased estimate (a sum divided by n), and
    the running variance is updated with the unbiased one (divided by n - 1). PyTorch/XLA 2.9 updates it with the
    biased one: with 7 x 7 values per channel, the change is 2 % too small.
    """
    changed = False
    for node in calls(program, *_BATCH_NORMS):
        taken = [user for user in node.users if user.target is operator.getitem]
        for new in (user for user in taken if user.args[1] == _RUNNING_VAR):
            if argument(node, "training") and argument(node, "running_var") is not None:
                new.replace_all_uses_with(_running_var(node))
                changed = True
    return changed


def _running_var(node: fx.Node) -> fx.Node:
    """The new running variance, from the saved inverse of the standard deviation of each channel."""
    old, momentum = argument(node, "running_var"), argument(node, "momentum")
    shape = value(argument(node, "input")).shape
    count = math.prod(shape) // shape[1]
    build = Builder(node.next, like=node)
    inverse = build(operator.getitem, node, 2)
    biased = build(
        aten.sub.Scalar, build(aten.pow.Tensor_Scalar, inverse, -2), argument(node, "eps")
    )
    of_sample = build(aten.mul.Scalar, biased, momentum * count / (count - 1))
    return build(aten.add.Tensor, build(aten.mul.Scalar, old, 1 - momentum), of_sample)
