"""Pooling."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass

from torch import fx

from scripts.lowering.fx_rewrites.edit import (
    Builder,
    argument,
    aten,
    each,
    is_static,
    is_symbolic,
    per_dimension,
    value,
)


@dataclass(frozen=True)
class _Windows:
    """The windows of a pool, each value for rows and columns."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]

    @classmethod
    def of_node(cls, node: fx.Node) -> _Windows:
        kernel = per_dimension(node, "kernel_size")
        stride = per_dimension(node, "stride") or kernel
        return cls(kernel, stride, per_dimension(node, "padding"), per_dimension(node, "dilation"))

    def end(self, dim: int, count: int) -> int:
        """The first place after `count` windows, in the padded input."""
        return (count - 1) * self.stride[dim] + self.dilation[dim] * (self.kernel[dim] - 1) + 1


@each(aten.max_pool2d.default, aten.max_pool2d_with_indices.default)
def ceil_mode_as_padding(node: fx.Node) -> fx.Node | None:
    """A maximum over windows with `ceil_mode=True` becomes one of an input that is padded at its end.

    With `ceil_mode`, the last window of a dimension may begin inside the input and end after it. torch-mlir
    20261001 lowers this to StableHLO with the missing rows on both sides, so that each window begins too early.
    """
    image = argument(node, "self")
    if not argument(node, "ceil_mode") or not value(image).dtype.is_floating_point:
        return None
    if any(user.target is operator.getitem and user.args[1] for user in node.users):
        return None  # indices into the input, which has another width when it is padded
    windows, result = _Windows.of_node(node), value(node)
    counts = (result[0] if isinstance(result, tuple | list) else result).shape[-2:]
    sizes = value(image).shape[-2:]
    # What the last windows need after the input and its padding.
    rows, columns = (
        max(0, windows.end(i, counts[i]) - sizes[i] - 2 * windows.padding[i]) for i in range(2)
    )
    if is_symbolic(rows) or is_symbolic(columns):
        return None
    build = Builder(node)
    if rows or columns:
        image = build(aten.constant_pad_nd.default, image, [0, columns, 0, rows], -math.inf)
    names = ("kernel_size", "stride", "padding", "dilation")
    return build(node.target, image, *(argument(node, name) for name in names), False)


@each(aten.max_pool2d_with_indices.default)
def indices_by_offsets(node: fx.Node) -> dict[int, fx.Node] | None:
    """A maximum over windows of which the indices are used is computed offset by offset, as PyTorch does: an element
    replaces the maximum so far if it is larger or NaN. The indices are into the rows and columns of the input.

    IREE 3.13 rejects the indices that torch-mlir 20261001 lowers, from O2 on ("One or more operations with large
    vector sizes"), and does not legalize the stablehlo.select_and_scatter of PyTorch/XLA 2.9.
    """
    image = argument(node, "self")
    if not any(user.args[1] == 1 for user in node.users):
        return None
    if not value(image).dtype.is_floating_point or not is_static(image):
        return None
    call, windows = Builder(node), _Windows.of_node(node)
    kernel, stride, padding = windows.kernel, windows.stride, windows.padding
    dilation = windows.dilation
    counts, sizes = list(value(node)[0].shape[-2:]), value(image).shape[-2:]
    after = [max(0, windows.end(i, counts[i]) - padding[i] - sizes[i]) for i in range(2)]
    pads = [padding[1], after[1], padding[0], after[0]]
    padded = call(aten.constant_pad_nd.default, image, pads, -math.inf)
    starts = [_range(call, counts[i], stride[i], -padding[i]) for i in range(2)]
    # Where nothing is larger than minus infinity, PyTorch gives the first element that is not padding.
    first = [_inside(call, starts[i], dilation[i], -(-padding[i] // dilation[i])) for i in range(2)]
    shape = [*value(image).shape[:-2], *counts]
    best = call.full(shape, -math.inf, value(image).dtype)
    index = call(aten.expand.default, _flat(call, first, sizes[1]), shape)
    own = _flat(call, starts, sizes[1])
    for offset in itertools.product(*(range(0, kernel[i] * dilation[i], dilation[i]) for i in range(2))):  # fmt: skip
        shifted = padded
        for dim in range(2):
            end = offset[dim] + (counts[dim] - 1) * stride[dim] + 1
            shifted = call(aten.slice.Tensor, shifted, dim - 2, offset[dim], end, stride[dim])
        larger = call(aten.gt.Tensor, shifted, best)
        is_new_best = call(aten.logical_or.default, larger, call(aten.ne.Tensor, shifted, shifted))
        here = call(aten.add.Scalar, own, offset[0] * sizes[1] + offset[1])
        index = call(aten.where.self, is_new_best, here, index)
        best = call(aten.where.self, is_new_best, shifted, best)
    return {0: best, 1: index}


def _range(call: Builder, count: int, step: int, start: int) -> fx.Node:
    """`count` positions from `start`, a step apart."""
    return call.arange(start, start + count * step, step)


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


@each(aten.max_pool2d_with_indices_backward.default)
def gradient_by_offsets(node: fx.Node) -> fx.Node | None:
    """The gradient of a maximum over windows is a sum over the offsets in a window, without a scatter.

    An element of the input is in at most as many windows as a window has offsets. It has the gradient of each of
    those whose saved index is its own. The sum of overlapping windows has another order.

    torch-mlir 20261001 lowers max_pool2d_with_indices_backward to no StableHLO, and otherwise to a scatter of an index
    per element. PyTorch/XLA 2.9 makes it a stablehlo.select_and_scatter, which IREE 3.13 does not legalize.
    """
    gradient, image = argument(node, "grad_output"), argument(node, "self")
    return _Gradient(node).build() if is_static(gradient, image) else None


class _Gradient:
    """The gradient of one maximum over windows, by phases.

    With a padding p and a stride s, an element at y is in the phase (y + p) % s, at the place q = (y + p) // s of it. The
    window o has it at the offset i, with a dilation d, if o * s + i * d = y + p. So in a phase, only the offsets
    with (i * d) % s = phase count, and the window is o = q - (i * d) // s: a slice for all places.
    """

    def __init__(self, node: fx.Node) -> None:
        self.node, self.call = node, Builder(node)
        windows = _Windows.of_node(node)
        self.kernel, self.stride = windows.kernel, windows.stride
        self.padding, self.dilation = windows.padding, windows.dilation
        self.shape = list(value(argument(node, "self")).shape)
        self.windows = list(value(argument(node, "grad_output")).shape[-2:])
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
        return [self.before[dim] - place // stride for place in moved if place % stride == phase]

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
        joined = call.contiguous(joined)
        joined = call(aten.view.default, joined, [*outer, rows * down, columns * across])
        for dim in range(2):
            start = self.padding[dim]
            joined = call(aten.slice.Tensor, joined, dim - 2, start, start + self.shape[dim - 2])
        return call.contiguous(joined)  # the users of a gradient may view it
