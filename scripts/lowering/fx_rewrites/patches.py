"""Convolutions that cut an image into patches."""

from __future__ import annotations

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.lowering.fx_rewrites.edit import Builder, argument, aten, calls, replace, value

_CONVOLUTIONS = (aten.conv2d.default, aten.convolution.default)
_DTYPES = (torch.float32, torch.float64)
"""In types of 16 bits, a backend may round between the steps of a convolution elsewhere than in a product."""


def patches_as_product(program: ExportedProgram) -> bool:
    """A 2-D convolution whose stride is its kernel becomes a product of patches and weights.

    The patches do not overlap, so together they are the image itself in another order: the first layer
    of vision transformers. The order of sums may change.
    """
    changed = False
    for node in calls(program, *_CONVOLUTIONS):
        if _cuts_patches(node):
            replace(node, _product(node))
            changed = True
    return changed


def _cuts_patches(node: fx.Node) -> bool:
    """Whether a convolution takes each value of its input once, in patches of more than one value."""
    image, weight = value(argument(node, "input")), value(argument(node, "weight"))
    if image.dim() != 4 or weight.dim() != 4 or image.dtype not in _DTYPES:
        return False
    if not all(isinstance(size, int) for size in image.shape):
        return False
    kernel = list(weight.shape[2:])
    plain = {"padding": 0, "dilation": 1}
    if any(set(argument(node, name)) != {number} for name, number in plain.items()):
        return False
    if node.target is aten.convolution.default and argument(node, "transposed"):
        return False
    fits = all(size % edge == 0 for size, edge in zip(image.shape[2:], kernel, strict=True))
    strides = list(argument(node, "stride"))
    # A stride for both dimensions may be given once.
    return (
        argument(node, "groups") == 1 and (strides * 2)[:2] == kernel and kernel != [1, 1] and fits
    )


def _product(node: fx.Node) -> fx.Node:
    """The product of patches [batch × rows × columns, values] and weights [values, channels], as the image
    that the convolution makes."""
    build = Builder(node)
    image, weight = argument(node, "input"), argument(node, "weight")
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
    found = build(aten.reshape.default, product, [batch, rows, columns, out])
    return build(aten.permute.default, found, [0, 3, 1, 2])
