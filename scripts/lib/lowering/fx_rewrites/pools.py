"""Pooling."""

from __future__ import annotations

import math
import operator

from torch import fx
from torch.export import ExportedProgram

from scripts.lib.lowering.fx_rewrites.edit import Builder, argument, aten, calls, replace, value

_POOLS = (aten.max_pool2d.default, aten.max_pool2d_with_indices.default)


def ceil_mode_as_padding(program: ExportedProgram) -> bool:
    """A maximum over windows with `ceil_mode=True` becomes one of an input that is padded at its end.

    With `ceil_mode`, the last window of a dimension may begin inside the input and end after it. torch-mlir
    20261001 lowers this to StableHLO with the missing rows on both sides, so that each window begins too early.
    """
    changed = False
    for node in calls(program, *_POOLS):
        image = argument(node, "self")
        if not argument(node, "ceil_mode") or not value(image).dtype.is_floating_point:
            continue
        if any(user.target is operator.getitem and user.args[1] for user in node.users):
            continue  # indices into the input, which has another width when it is padded
        missing = _missing(node)
        if not all(isinstance(one, int) for one in missing):
            continue
        replace(node, _padded(node, missing))
        changed = True
    return changed


def _missing(node: fx.Node) -> list[int]:
    """How many rows and columns the last windows need after the input and its padding."""
    kernel = _pair(argument(node, "kernel_size"))
    stride = _pair(argument(node, "stride") or kernel)
    padding, dilation = _pair(argument(node, "padding")), _pair(argument(node, "dilation"))
    result = value(node)
    made = (result[0] if isinstance(result, tuple | list) else result).shape[-2:]
    found = value(argument(node, "self")).shape[-2:]
    return [
        max(0, (made[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - found[i] - 2 * padding[i])
        for i in range(2)
    ]  # fmt: skip


def _pair(of: list[int]) -> list[int]:
    """An argument for rows and columns, which may be given once."""
    return (list(of) * 2)[:2]


def _padded(node: fx.Node, missing: list[int]) -> fx.Node:
    build, image = Builder(node), argument(node, "self")
    if any(missing):
        rows, columns = missing
        image = build(aten.constant_pad_nd.default, image, [0, columns, 0, rows], -math.inf)
    names = ("kernel_size", "stride", "padding", "dilation")
    return build(node.target, image, *(argument(node, name) for name in names), False)
