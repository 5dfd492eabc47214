"""Convolutions and pools: convolutions that cut an image into patches, transposed ones, gradients of convolutions, and maxima and averages over windows."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.frontends.lowering.fx_rewrites.edit import (
    WIDE,
    Builder,
    argument,
    aten,
    calls,
    each,
    is_static,
    is_symbolic,
    per_dimension,
    replace,
    value,
)

_HALF = (torch.float16, torch.bfloat16)
MAX_OFFSETS = 128
"""The largest kernel, in elements, whose gradient is computed offset by offset."""
MIN_WEIGHTS = 16_384
"""The fewest weights of a convolution that becomes a product of small images: in float32 64 KiB, more than the L1 caches of CPUs hold."""


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


def _is_plain(node: fx.Node, image: fx.Node, weight: fx.Node) -> bool:
    """Whether a convolution is of 2-D images of known sizes, without groups, not transposed, and not in a 16-bit type."""
    return (
        value(image).dim() == value(weight).dim() == 4
        and value(image).dtype in WIDE
        and is_static(image)
        and not (node.target is aten.convolution.default and argument(node, "transposed"))
        and argument(node, "groups") == 1
    )


def _cuts_patches(node: fx.Node, image: fx.Node, weight: fx.Node) -> bool:
    """Whether a convolution takes each value of its input once, in patches of more than one value."""
    if not _is_plain(node, image, weight):
        return False
    kernel = list(value(weight).shape[2:])
    return (
        set(argument(node, "padding")) == {0}
        and set(argument(node, "dilation")) == {1}
        and per_dimension(node, "stride") == kernel
        and kernel != [1, 1]
        and all(size % edge == 0 for size, edge in zip(value(image).shape[2:], kernel, strict=True))
    )


@each(aten.conv2d.default, aten.convolution.default)
def small_images_as_product(node: fx.Node) -> fx.Node | None:
    """A 2-D convolution whose result has at most as many places (batch × rows × columns) as channels becomes a product of weights
    [channels, values] and patches [values, places]. The patches are one slice of the padded image per offset in the kernel, and
    not larger than the weights.

    IREE 3.13 convolves directly, with vectors along the channels of the result. So it reads each weight once per row of the image, in steps of
    all channels. The order of sums may change.
    """
    image, weight = argument(node, "input"), argument(node, "weight")
    if not _has_small_result(node, image, weight):
        return None
    build = Builder(node)
    batch, channels, _, _ = value(image).shape
    out, _, *kernel = value(weight).shape
    _, _, rows, columns = value(node).shape
    strides, paddings, dilations = (
        per_dimension(node, name) for name in ("stride", "padding", "dilation")
    )
    padded = image
    if any(paddings):
        edges = [paddings[1], paddings[1], paddings[0], paddings[0]]
        padded = build(aten.constant_pad_nd.default, image, edges, 0.0)
    slices = []
    for offsets in itertools.product(*map(range, kernel)):
        part = padded
        for dimension, size in enumerate((rows, columns)):
            first = offsets[dimension] * dilations[dimension]
            end = first + (size - 1) * strides[dimension] + 1
            part = build(aten.slice.Tensor, part, 2 + dimension, first, end, strides[dimension])
        slices.append(part)
    values = math.prod(kernel) * channels
    patches = build(aten.reshape.default, build(aten.cat.default, slices, 1), [batch, values, rows * columns])  # fmt: skip
    ordered = build(aten.permute.default, patches, [1, 0, 2])
    flat = build(aten.reshape.default, ordered, [values, batch * rows * columns])
    last = build(aten.permute.default, weight, [0, 2, 3, 1])
    product = build(aten.mm.default, build(aten.reshape.default, last, [out, values]), flat)
    if (bias := argument(node, "bias")) is not None:
        product = build(aten.add.Tensor, product, build(aten.reshape.default, bias, [out, 1]))
    result = build(aten.reshape.default, product, [out, batch, rows, columns])
    return build(aten.permute.default, result, [1, 0, 2, 3])


def _has_small_result(node: fx.Node, image: fx.Node, weight: fx.Node) -> bool:
    """Whether a convolution of 2-D images has a result with no more places than channels, and is no product of the image itself."""
    if not _is_plain(node, image, weight):
        return False
    batch, out, rows, columns = value(node).shape
    return (
        (math.prod(value(weight).shape[2:]) > 1 or set(argument(node, "stride")) != {1})
        and value(weight).numel() >= MIN_WEIGHTS
        and 0 < batch * rows * columns <= out
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
    gradients = _ConvolutionGradients(node)
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
        gradients = _ConvolutionGradients(node)
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


class _ConvolutionGradients:
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


@each(aten.convolution.default, with_dynamic=True)
def crop_after_convolution(node: fx.Node) -> fx.Node | None:
    """A transposed convolution whose padding is larger than the reach of its kernel is computed without padding, and its result is cropped.

    torch-mlir 20261001 (torch dialect, linalg) reads past its input where there is output padding too.
    """
    rank = value(argument(node, "weight")).dim() - 2
    names = ("padding", "output_padding", "dilation")
    padding, further, dilation = (per_dimension(node, name, rank) for name in names)
    kernel = value(argument(node, "weight")).shape[2:]
    crops = [padding[i] > dilation[i] * (kernel[i] - 1) and further[i] > 0 for i in range(rank)]
    if not argument(node, "transposed") or not any(crops):
        return None
    left = [max(0, further[i] - padding[i]) for i in range(rank)]
    changed = {"padding": [0] * rank, "output_padding": left}
    given = [changed.get(declared.name, argument(node, declared.name)) for declared in node.target._schema.arguments]  # fmt: skip
    call = Builder(node)
    result = call(node.target, *given)
    for i in range(rank):
        end = min(0, further[i] - padding[i]) or None
        result = call(aten.slice.Tensor, result, 2 + i, padding[i], end)
    return result


_ADAPTIVE = (
    *(aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default),
    aten._adaptive_avg_pool2d.default,
)


@each(*_ADAPTIVE, with_dynamic=True)
def adaptive_average_by_masks(node: fx.Node) -> fx.Node | None:
    """An adaptive average over a dynamic number of rows or columns: for each window the sum of what is inside it, divided by its size.

    PyTorch 2.15 decomposes it for the size of the example: into windows of one size, if that fits. The sums have another order.
    """
    tensor, counts = node.args[0], list(node.args[1])
    sizes = value(tensor).shape[-len(counts) :]
    is_open = any(map(is_symbolic, sizes))
    if not is_open or set(counts) == {1} or not all(isinstance(n, int) for n in counts):
        return None
    call, dtype = Builder(node), value(node).dtype
    for dim, count in enumerate(reversed(counts)):
        tensor = _averages(call, tensor, -1 - dim, count)
    return tensor if value(tensor).dtype is dtype else call.cast(tensor, dtype)


def _averages(call: Builder, tensor: fx.Node, dim: int, count: int) -> fx.Node:
    """The averages of `count` windows along a dimension, counted from the last one, in float32 at least."""
    size = value(tensor).shape[dim]
    if is_symbolic(size):
        size = call(aten.sym_size.int, tensor, value(tensor).dim() + dim)
    places = call(aten.arange.default, size, dtype=torch.int64, device=torch.device("cpu"))
    windows = call(aten.unsqueeze.default, call.arange(0, count, 1), 1)
    starts = call(aten.mul.Tensor, windows, size)
    ends = call(aten.add.Scalar, call(aten.add.Tensor, starts, size), count - 1)
    first, last = (call(aten.div.Tensor_mode, n, count, rounding_mode="floor") for n in (starts, ends))  # fmt: skip
    inside = call(aten.logical_and.default, call(aten.ge.Tensor, places, first), call(aten.lt.Tensor, places, last))  # fmt: skip
    lengths = call(aten.squeeze.dim, call(aten.sub.Tensor, last, first), 1)
    for _ in range(-1 - dim):
        inside, lengths = (call(aten.unsqueeze.default, n, -1) for n in (inside, lengths))
    spread = call.where(inside, call(aten.unsqueeze.default, tensor, dim - 1), 0)
    wide = value(tensor).dtype if value(tensor).dtype in WIDE else torch.float32
    total = call(aten.sum.dim_IntList, spread, [dim], dtype=wide)
    return call(aten.div.Tensor, total, call.cast(lengths, wide))


@dataclass(frozen=True)
class _Windows:
    """The windows of a pool, each value for its dimensions: rows and columns, or three."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]

    @classmethod
    def of_node(cls, node: fx.Node, rank: int = 2) -> _Windows:
        kernel, stride, padding, dilation = (
            per_dimension(node, name, rank)
            for name in ("kernel_size", "stride", "padding", "dilation")
        )
        return cls(kernel, stride or kernel, padding, dilation)

    def end(self, dim: int, count: int) -> int:
        """The first place after `count` windows, in the padded input."""
        return (count - 1) * self.stride[dim] + self.dilation[dim] * (self.kernel[dim] - 1) + 1


_RANKS = {
    aten.max_pool1d.default: 1,
    aten.max_pool2d.default: 2,
    aten.max_pool3d.default: 3,
    aten.max_pool2d_with_indices.default: 2,
    aten.max_pool3d_with_indices.default: 3,
    aten.avg_pool1d.default: 1,
    aten.avg_pool2d.default: 2,
}
"""Pools, with the number of dimensions of their windows."""


@each(*_RANKS)
def windows_within_input(node: fx.Node) -> fx.Node | None:
    """A window that is larger than its padded input, which `ceil_mode` allows, has the size of that. PyTorch/XLA 2.9 returns nothing for it."""
    given = {a.name: argument(node, a.name) for a in node.target._schema.arguments}
    rank = _RANKS[node.target]
    kernel, padding = (per_dimension(node, name, rank) for name in ("kernel_size", "padding"))
    sizes = value(given["self"]).shape[-rank:]
    within = [min(kernel[i], sizes[i] + 2 * padding[i]) for i in range(rank)]
    if within == kernel or set(given.get("dilation", [1])) != {1}:
        return None
    given |= {"kernel_size": within, "stride": list(given["stride"]) or kernel}
    return Builder(node)(node.target, *given.values())


@each(
    *(aten.max_pool2d.default, aten.max_pool2d_with_indices.default),
    aten.max_pool3d_with_indices.default,
)
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
    rank = 3 if node.target is aten.max_pool3d_with_indices.default else 2
    windows, result = _Windows.of_node(node, rank), value(node)
    counts = (result[0] if isinstance(result, tuple | list) else result).shape[-rank:]
    sizes = value(image).shape[-rank:]
    # What the last windows need after the input and its padding.
    missing = [
        max(0, windows.end(i, counts[i]) - sizes[i] - 2 * windows.padding[i]) for i in range(rank)
    ]
    if any(is_symbolic(count) for count in missing):
        return None
    build = Builder(node)
    if any(missing):
        pads = [pad for count in reversed(missing) for pad in (0, count)]
        image = build(aten.constant_pad_nd.default, image, pads, -math.inf)
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
    dtype = value(image).dtype
    if dtype is torch.uint8 or not is_static(image):
        return None
    least = -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min
    call, windows = Builder(node), _Windows.of_node(node)
    kernel, stride, padding = windows.kernel, windows.stride, windows.padding
    dilation = windows.dilation
    counts, sizes = list(value(node)[0].shape[-2:]), value(image).shape[-2:]
    after = [max(0, windows.end(i, counts[i]) - padding[i] - sizes[i]) for i in range(2)]
    pads = [padding[1], after[1], padding[0], after[0]]
    padded = call(aten.constant_pad_nd.default, image, pads, least)
    starts = [_range(call, counts[i], stride[i], -padding[i]) for i in range(2)]
    # Where nothing is larger than the least number, PyTorch gives the first element that is not padding.
    first = [_inside(call, starts[i], dilation[i], -(-padding[i] // dilation[i])) for i in range(2)]
    shape = [*value(image).shape[:-2], *counts]
    best = call.full(shape, least, dtype)
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
    return call.arange(start, start + count * step, step)


def _inside(call: Builder, starts: fx.Node, dilation: int, times: int) -> fx.Node:
    """The first positions of windows that are not before the input."""
    for _ in range(times):
        before = call(aten.lt.Scalar, starts, 0)
        later = call(aten.add.Scalar, starts, dilation)
        starts = call(aten.where.self, before, later, starts)
    return starts


def _flat(call: Builder, positions: list[fx.Node], width: int) -> fx.Node:
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
    return _PoolGradient(node).build() if is_static(gradient, image) else None


class _PoolGradient:
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
