"""Pooling."""

from __future__ import annotations

import itertools
import math
import operator

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.lowering.fx_rewrites.edit import Builder, argument, aten, calls, replace, value

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


def indices_by_offsets(program: ExportedProgram) -> bool:
    """A maximum over windows of which the indices are used is computed offset by offset, as PyTorch does: an element
    replaces the maximum so far if it is larger or NaN.

    IREE 3.13 rejects the indices that torch-mlir 20261001 lowers, from O2 on ("One or more operations with large
    vector sizes"), and does not legalize the stablehlo.select_and_scatter of PyTorch/XLA 2.9.
    """
    changed = False
    for node in calls(program, aten.max_pool2d_with_indices.default):
        image, users = argument(node, "self"), {user.args[1]: user for user in node.users}
        sizes = value(image).shape
        if 1 not in users or not value(image).dtype.is_floating_point:
            continue
        if not all(isinstance(size, int) for size in sizes):
            continue
        for user, new in zip((0, 1), _with_indices(node), strict=True):
            if user in users:
                replace(users[user], new)
        node.graph.erase_node(node)
        changed = True
    return changed


def _with_indices(node: fx.Node) -> tuple[fx.Node, fx.Node]:
    """The maximum over windows and its indices into the rows and columns of the input."""
    call, image = Builder(node), argument(node, "self")
    kernel = _pair(argument(node, "kernel_size"))
    stride = _pair(argument(node, "stride") or kernel)
    padding, dilation = _pair(argument(node, "padding")), _pair(argument(node, "dilation"))
    windows, sizes = list(value(node)[0].shape[-2:]), value(image).shape[-2:]
    last = [(windows[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] for i in range(2)]
    after = [max(0, last[i] + 1 - padding[i] - sizes[i]) for i in range(2)]
    pads = [padding[1], after[1], padding[0], after[0]]
    padded = call(aten.constant_pad_nd.default, image, pads, -math.inf)
    starts = [_range(call, windows[i], stride[i], -padding[i]) for i in range(2)]
    # Where nothing is larger than minus infinity, PyTorch gives the first element that is not padding.
    first = [_inside(call, starts[i], dilation[i], -(-padding[i] // dilation[i])) for i in range(2)]
    shape = [*value(image).shape[:-2], *windows]
    best = call.full(shape, -math.inf, value(image).dtype)
    index = call(aten.expand.default, _flat(call, first, sizes[1]), shape)
    own = _flat(call, starts, sizes[1])
    for offset in itertools.product(*(range(0, kernel[i] * dilation[i], dilation[i]) for i in range(2))):  # fmt: skip
        found = padded
        for dim in range(2):
            end = offset[dim] + (windows[dim] - 1) * stride[dim] + 1
            found = call(aten.slice.Tensor, found, dim - 2, offset[dim], end, stride[dim])
        larger = call(aten.gt.Tensor, found, best)
        taken = call(aten.logical_or.default, larger, call(aten.ne.Tensor, found, found))
        here = call(aten.add.Scalar, own, offset[0] * sizes[1] + offset[1])
        index = call(aten.where.self, taken, here, index)
        best = call(aten.where.self, taken, found, best)
    return best, index


def _range(call: Builder, count: int, step: int, start: int) -> fx.Node:
    """`count` positions from `start`, a step apart."""
    return call(
        *(aten.arange.start_step, start, start + count * step, step),
        dtype=torch.int64,
        device=torch.device("cpu"),
    )


def _inside(call: Builder, starts: fx.Node, dilation: int, times: int) -> fx.Node:
    """The first positions of windows that are not before the input."""
    for _ in range(times):
        before = call(aten.lt.Scalar, starts, 0)
        later = call(aten.add.Scalar, starts, dilation)
        starts = call(aten.where.self, before, later, starts)
    return starts


def _flat(call: Builder, positions: list[fx.Node], width: int) -> fx.Node:
    """Indices of rows and columns as one index into both."""
    rows = call(aten.mul.Scalar, call(aten.unsqueeze.default, positions[0], 1), width)
    return call(aten.add.Tensor, rows, positions[1])


def gradient_by_offsets(program: ExportedProgram) -> bool:
    """The gradient of a maximum over windows is a sum over the offsets in a window, without a scatter.

    An element of the input is in at most as many windows as a window has offsets. It has the gradient of each of
    those whose saved index is its own. The sum of overlapping windows has another order.

    torch-mlir 20261001 lowers max_pool2d_with_indices_backward to no StableHLO, and otherwise to a scatter of an index
    per element. PyTorch/XLA 2.9 makes it a stablehlo.select_and_scatter, which IREE 3.13 does not legalize.
    """
    changed = False
    for node in calls(program, aten.max_pool2d_with_indices_backward.default):
        found = [*value(argument(node, "self")).shape, *value(node.args[0]).shape]
        if all(isinstance(size, int) for size in found):
            replace(node, _Gradient(node).build())
            changed = True
    return changed


class _Gradient:
    """The gradient of one maximum over windows, by phases.

    With a padding p and a stride s, an element at y is in the phase (y + p) % s, at the place q = (y + p) // s of it. The
    window o has it at the offset i, with a dilation d, if o * s + i * d = y + p. So in a phase, only the offsets
    with (i * d) % s = phase count, and the window is o = q - (i * d) // s: a slice for all places.
    """

    def __init__(self, node: fx.Node) -> None:
        self.node, self.call = node, Builder(node)
        self.kernel = _pair(argument(node, "kernel_size"))
        self.stride = _pair(argument(node, "stride") or self.kernel)
        self.padding = _pair(argument(node, "padding"))
        self.dilation = _pair(argument(node, "dilation"))
        self.shape = list(value(argument(node, "self")).shape)
        self.windows = list(value(node.args[0]).shape[-2:])
        self.places = [
            -(-(self.shape[i - 2] + self.padding[i]) // self.stride[i]) for i in range(2)
        ]
        self.before = [(self.kernel[i] - 1) * self.dilation[i] // self.stride[i] for i in range(2)]

    def build(self) -> fx.Node:
        """Add the nodes; returns the gradient."""
        call, width = self.call, self.shape[-1]
        gradient = self._padded(argument(self.node, "grad_output"), 0)
        chosen = self._padded(argument(self.node, "indices"), -1)
        first = [_range(call, self.places[i], self.stride[i], -self.padding[i]) for i in range(2)]
        first = _flat(call, first, width)
        phases = []
        for row in range(self.stride[0]):
            for column in range(self.stride[1]):
                own = call(aten.add.Scalar, first, row * width + column)
                phases.append(self._phase((row, column), own, gradient, chosen))
        return self._joined(phases)

    def _padded(self, tensor: fx.Node, number: int) -> fx.Node:
        """The tensor with a window before and after for each that an offset may ask for."""
        after = [self.places[i] - self.windows[i] for i in range(2)]
        pads = [self.before[1], after[1], self.before[0], after[0]]
        return self.call(aten.constant_pad_nd.default, tensor, pads, number)

    def _phase(
        self, phase: tuple[int, int], own: fx.Node, gradient: fx.Node, chosen: fx.Node
    ) -> fx.Node:
        """The gradient of the elements of a phase, of which `own` has the indices."""
        total = None
        for starts in itertools.product(*(self._starts(i, phase[i]) for i in range(2))):
            there = self.call(aten.eq.Tensor, self._slice(chosen, starts), own)
            part = self.call.where(there, self._slice(gradient, starts), 0)
            total = part if total is None else self.call(aten.add.Tensor, total, part)
        if total is None:  # between windows
            shape = [*self.shape[:-2], *self.places]
            total = self.call.full(shape, 0, value(gradient).dtype)
        return total

    def _starts(self, dim: int, phase: int) -> list[int]:
        """Where the windows begin that have the elements of a phase, one start for each offset."""
        moved = [i * self.dilation[dim] for i in range(self.kernel[dim])]
        stride = self.stride[dim]
        return [self.before[dim] - one // stride for one in moved if one % stride == phase]

    def _slice(self, tensor: fx.Node, starts: tuple[int, ...]) -> fx.Node:
        for dim in range(2):
            start, end = starts[dim], starts[dim] + self.places[dim]
            tensor = self.call(aten.slice.Tensor, tensor, dim - 2, start, end)
        return tensor

    def _joined(self, phases: list[fx.Node]) -> fx.Node:
        """The elements of all phases in their order, without those of the padding."""
        call, outer = self.call, self.shape[:-2]
        (down, across), (rows, columns) = self.stride, self.places
        count = len(outer)
        joined = call(aten.cat.default, [call(aten.unsqueeze.default, p, 0) for p in phases], 0)
        joined = call(aten.view.default, joined, [down, across, *outer, rows, columns])
        order = [*range(2, 2 + count), 2 + count, 0, 3 + count, 1]
        joined = call(aten.permute.default, joined, order)
        joined = call(aten.clone.default, joined, memory_format=torch.contiguous_format)
        joined = call(aten.view.default, joined, [*outer, rows * down, columns * across])
        for dim in range(2):
            start = self.padding[dim]
            joined = call(aten.slice.Tensor, joined, dim - 2, start, start + self.shape[dim - 2])
        # The users of a gradient may view it.
        return call(aten.clone.default, joined, memory_format=torch.contiguous_format)
