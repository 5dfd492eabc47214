"""Convolutions that cut an image into patches, and gradients of convolutions in training steps."""

from __future__ import annotations

import itertools
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
    per_dimension,
    replace,
    value,
)

_HALF = (torch.float16, torch.bfloat16)
MAX_OFFSETS = 128
"""The largest kernel, in elements, whose gradient is computed offset by offset."""


@each(aten.conv2d.default, aten.convolution.default)
def patches_as_product(node: fx.Node) -> fx.Node | None:
    """A 2-D convolution whose stride is its kernel becomes a product of patches [batch × rows × columns, values] and
    weights [values, channels].

    The patches do not overlap, so together they are the image itself in another order: the first layer
    of vision transformers. The order of sums may change.
    """
    image, weight = argument(node, "input"), argument(node, "weight")
    if not _cuts_patches(node, image, weight):
        return None
    build = Builder(node)
    batch, channels, height, width = value(image).shape
    out, _, down, across = value(weight).shape
    rows, columns, size = height // down, width // across, channels * down * across
    split = build(aten.reshape.default, image, [batch, channels, rows, down, columns, across])
    ordered = build(aten.permute.default, split, [0, 2, 4, 1, 3, 5])
    patches = build(aten.reshape.default, ordered, [batch * rows * columns, size])
    flat = build(aten.reshape.default, weight, [out, size])
    product = build(aten.mm.default, patches, build(aten.permute.default, flat, [1, 0]))
    if (bias := argument(node, "bias")) is not None:
        product = build(aten.add.Tensor, product, bias)
    result = build(aten.reshape.default, product, [batch, rows, columns, out])
    return build(aten.permute.default, result, [0, 3, 1, 2])


def _cuts_patches(node: fx.Node, image: fx.Node, weight: fx.Node) -> bool:
    """Whether a convolution takes each value of its input once, in patches of more than one value."""
    if value(image).dim() != 4 or value(weight).dim() != 4:
        return False
    if value(image).dtype not in WIDE or not is_static(image):
        return False
    if node.target is aten.convolution.default and argument(node, "transposed"):
        return False
    kernel = list(value(weight).shape[2:])
    return (
        argument(node, "groups") == 1
        and set(argument(node, "padding")) == {0}
        and set(argument(node, "dilation")) == {1}
        and per_dimension(node, "stride") == kernel
        and kernel != [1, 1]
        and all(size % edge == 0 for size, edge in zip(value(image).shape[2:], kernel, strict=True))
    )


@each(aten.convolution_backward.default)
def grouped_gradients_by_offsets(node: fx.Node) -> dict[int, fx.Node] | None:
    """The gradients of a convolution with groups, by operators that have no groups or that run forward.

    The gradient of the input is the convolution of the output's gradient, with zeros between its elements for a
    stride, with the flipped kernel. The gradient of the weight is computed for each offset in the kernel: a sum of
    products over the batch and the places of the output. Both sums have another order; those of half types are
    computed in float32.

    torch-mlir 20261001 makes the first a transposed convolution with groups, which IREE 3.13 rejects ("op expected
    reassociation map #0 to have size equal to the expanded rank"), and cannot lower either to StableHLO.
    """
    if argument(node, "groups") == 1 or not _is_supported(node):
        return None
    gradients = _Gradients(node)
    make = (gradients.of_input, gradients.of_weight, gradients.of_bias)
    numbers = [user.args[1] for user in node.users]
    return {number: gradients.as_given(make[number]()) for number in numbers}


def weight_gradients_by_offsets(program: ExportedProgram) -> bool:
    """The gradient of the weight of a convolution without groups, by a matrix product for each offset in the kernel.

    The sums have another order; so 16-bit types are left alone. Frontends write this gradient as a
    convolution whose kernel has the size of the image, which IREE 3.13 compiles to slow code for CPUs.
    """
    changed = False
    for node in calls(program, aten.convolution_backward.default):
        is_half = value(argument(node, "input")).dtype in _HALF
        if argument(node, "groups") != 1 or is_half or not _is_supported(node):
            continue
        gradients = _Gradients(node)
        made = {1: gradients.of_weight, 2: gradients.of_bias}
        users = [user for user in node.users if user.args[1] in made]
        for user in users:
            replace(user, made[user.args[1]]())
        if not node.users:
            node.graph.erase_node(node)
        elif users:
            node.update_arg(len(node.args) - 1, [True, False, False])
            node.meta["val"] = (node.meta["val"][0], None, None)
        changed = changed or bool(users)
    return changed


def _is_supported(node: fx.Node) -> bool:
    if argument(node, "transposed"):
        return False
    if not all(user.target is operator.getitem for user in node.users):
        return False
    if not is_static(*(argument(node, name) for name in ("grad_output", "input", "weight"))):
        return False
    kernel = value(argument(node, "weight")).shape[2:]
    dilation, padding = (per_dimension(node, n, len(kernel)) for n in ("dilation", "padding"))
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    fits = all(p <= r for p, r in zip(padding, reach, strict=True))
    return fits and math.prod(kernel) <= MAX_OFFSETS


class _Gradients:
    """The gradients of one convolution: input [N, C, …], weight [K, C / groups, …], output's gradient [N, K, …]."""

    def __init__(self, node: fx.Node) -> None:
        self.call = Builder(node)
        self.dtype = value(argument(node, "input")).dtype
        tensors = [argument(node, name) for name in ("grad_output", "input", "weight")]
        if self.dtype in _HALF:
            tensors = [self.call.cast(tensor, torch.float32) for tensor in tensors]
        self.output, self.input, self.weight = tensors
        self.groups = argument(node, "groups")
        self.kernel = list(value(self.weight).shape[2:])
        self.sizes = list(value(self.input).shape[2:])
        self.places = list(value(self.output).shape[2:])
        self.rank = len(self.kernel)
        self.stride, self.padding, self.dilation = (
            per_dimension(node, name, self.rank) for name in ("stride", "padding", "dilation")
        )

    def as_given(self, gradient: fx.Node) -> fx.Node:
        """A gradient in the type of the input."""
        return self.call.cast(gradient, self.dtype) if self.dtype in _HALF else gradient

    def of_bias(self) -> fx.Node:
        """The gradient of the bias, [K]."""
        dims = [dim for dim in range(self.rank + 2) if dim != 1]
        return self.call(aten.sum.dim_IntList, self.output, dims)

    def of_input(self) -> fx.Node:
        """The gradient of the input, [N, C, …]."""
        before, after = [], []
        for i in range(self.rank):
            reach = self.dilation[i] * (self.kernel[i] - 1)
            before.append(reach - self.padding[i])
            apart = (self.places[i] - 1) * self.stride[i] + 1
            after.append(self.sizes[i] + reach - before[i] - apart)
        padded = self._padded(self._apart(), before, after)
        kernel = self._flipped_kernel()
        ones, zeros = [1] * self.rank, [0] * self.rank
        options = (ones, zeros, self.dilation, False, zeros, self.groups)
        return self.call(aten.convolution.default, padded, kernel, None, *options)

    def _apart(self) -> fx.Node:
        """The output's gradient with zeros between its elements, as many as the stride leaves out."""
        call, spread = self.call, self.output
        if all(stride == 1 for stride in self.stride):
            return spread
        outer = list(value(spread).shape[:2])
        alone = [size for place in self.places for size in (place, 1)]
        spread = self._reshaped(spread, [*outer, *alone])
        # From the last dimension on.
        pads = [pad for stride in reversed(self.stride) for pad in (0, stride - 1, 0, 0)]
        spread = call(aten.constant_pad_nd.default, spread, pads, 0)
        wide = [p * s for p, s in zip(self.places, self.stride, strict=True)]
        spread = call(aten.view.default, spread, [*outer, *wide])
        for dim, (size, stride) in enumerate(zip(wide, self.stride, strict=True)):
            spread = call(aten.slice.Tensor, spread, dim + 2, 0, size - stride + 1)
        return spread

    def _flipped_kernel(self) -> fx.Node:
        """The kernel from outputs to inputs, [C, K / groups, …], read backwards."""
        call, spatial = self.call, list(range(3, 3 + self.rank))
        outputs, inputs = value(self.weight).shape[:2]
        own = outputs // self.groups
        kernel = call(aten.view.default, self.weight, [self.groups, own, inputs, *self.kernel])
        kernel = call(aten.permute.default, kernel, [0, 2, 1, *spatial])
        kernel = call(aten.flip.default, kernel, spatial)
        return self._reshaped(kernel, [self.groups * inputs, own, *self.kernel])

    def of_weight(self) -> fx.Node:
        """The gradient of the weight, [K, C / groups, …]."""
        call = self.call
        padded = self._padded(self.input, self.padding, self.padding)
        parts = []
        for offset in itertools.product(*map(range, self.kernel)):
            parts.append(call(aten.unsqueeze.default, self._of_offset(padded, offset), 2))
        joined = call(aten.cat.default, parts, 2)
        return call(aten.view.default, joined, list(value(self.weight).shape))

    def _of_offset(self, padded: fx.Node, offset: tuple[int, ...]) -> fx.Node:
        """The gradient of the weight at one offset in the kernel, [K, C / groups]."""
        call, groups = self.call, self.groups
        batch, outputs = value(self.output).shape[:2]
        inputs = value(self.input).shape[1]
        seen = padded
        for dim in range(self.rank):
            start = offset[dim] * self.dilation[dim]
            end = start + (self.places[dim] - 1) * self.stride[dim] + 1
            seen = call(aten.slice.Tensor, seen, dim + 2, start, end, self.stride[dim])
        if outputs == inputs == groups:
            product = call(aten.mul.Tensor, self.output, seen)
            dims = [0, *range(2, 2 + self.rank)]
            return call(aten.unsqueeze.default, call(aten.sum.dim_IntList, product, dims), 1)
        count = math.prod(self.places)
        left = self._reshaped(self.output, [batch, groups, outputs // groups, count])
        right = self._reshaped(seen, [batch, groups, inputs // groups, count])
        left = call(aten.permute.default, left, [1, 2, 0, 3])
        right = call(aten.permute.default, right, [1, 0, 3, 2])
        left = self._reshaped(left, [groups, outputs // groups, batch * count])
        right = self._reshaped(right, [groups, batch * count, inputs // groups])
        product = call(aten.bmm.default, left, right)
        return call(aten.view.default, product, [outputs, inputs // groups])

    def _reshaped(self, tensor: fx.Node, shape: list[int]) -> fx.Node:
        return self.call(aten.view.default, self.call.contiguous(tensor), shape)

    def _padded(self, tensor: fx.Node, before: list[int], after: list[int]) -> fx.Node:
        """The tensor with zeros around each dimension of the kernel."""
        pads = [pad for i in reversed(range(self.rank)) for pad in (before[i], after[i])]
        return self.call(aten.constant_pad_nd.default, tensor, pads, 0) if any(pads) else tensor
