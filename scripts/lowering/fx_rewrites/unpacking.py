"""Products with weights of which two values are in one byte."""

from __future__ import annotations

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

_CASTS = (torch.ops.prims.convert_element_type.default, aten._to_copy.default)
_BINARY = (aten.mul.Tensor, aten.sub.Tensor, aten.add.Tensor, aten.div.Tensor)
_CHECK = aten._assert_tensor_metadata.default

Halves = tuple[fx.Node, fx.Node]
"""The values with an even and with an odd index in the last dimension."""


def unpack_without_interleaving(program: ExportedProgram) -> bool:
    """`x @ w.T` becomes `x_even @ w_even.T + x_odd @ w_odd.T` if `w` interleaves two tensors.

    Weights of 4 bits are unpacked in each call: the low and the high half of each byte become columns
    next to each other. Interleaving them takes longer than the product, and the rest of unpacking
    (scales, types) can be done for each half. Instead, the columns of x are split, which is less
    work because x has fewer rows than `w` (otherwise it is not done). The order of sums changes.
    """
    changed = _split(program)
    if changed:
        program.graph.eliminate_dead_code()
        # Capture has decided the assertions about the types of tensors that nothing else uses any more. They would keep
        # the interleaved weights in the graph.
        for check in calls(program, _CHECK):
            if not _users(check.args[0]):
                program.graph.erase_node(check)
        program.graph.eliminate_dead_code()
    return changed


@each(aten.mm.default, aten.linear.default)
def _split(node: fx.Node) -> fx.Node | None:
    """The sum of two products with the halves of a weight, with the bias of the original."""
    found, x = _weight(node), node.args[0]
    # Splitting x has to be less work than interleaving the weight.
    if found is None or not is_static(x) or value(x).numel() >= value(found[0]).numel():
        return None
    build = Builder(node)
    if (halves := _halves(*found, build)) is None:
        return None
    *shape, columns = value(x).shape
    pairs = build(aten.reshape.default, x, [*shape, columns // 2, 2])
    results = []
    for number, half in enumerate(halves):
        chosen = build(aten.select.int, pairs, -1, number)
        if node.target is aten.mm.default:
            half = build(aten.permute.default, half, [1, 0])
        results.append(build(node.target, chosen, half))
    result = build(aten.add.Tensor, *results)
    bias = argument(node, "bias") if node.target is aten.linear.default else None
    return result if bias is None else build(aten.add.Tensor, result, bias)


def _weight(product: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """The weight of a product, [rows, columns] as in nn.Linear, and the call that uses it; None for
    another product."""
    weight, user = product.args[1], product
    if product.target is aten.mm.default:
        if weight.target is not aten.permute.default or list(weight.args[1]) != [1, 0]:
            return None
        if _users(weight) != [product]:
            return None
        weight, user = weight.args[0], weight
    fits = value(product).dtype in WIDE and value(weight).dim() == 2
    return (weight, user) if fits else None


def _halves(node: fx.Node, user: fx.Node, build: Builder) -> Halves | None:
    """The halves of a tensor, computed apart from where they are interleaved on; None if nothing
    interleaves them, or if the tensor is used as a whole.

    The operators in between act on single values, or are views. A view keeps even indices even if the
    last dimension has an even size before and after it.
    """
    chain: list[fx.Node] = []
    while (parts := _interleaved(node)) is None:
        if not _keeps_halves(node) or _users(node) != [user]:
            return None
        chain.append(node)
        user, node = node, node.args[0]
    if _users(node) != [user]:
        return None
    for step in reversed(chain):
        parts = (_half_of(step, parts[0], build), _half_of(step, parts[1], build))
    return parts


def _interleaved(node: fx.Node) -> Halves | None:
    """The two tensors that a stack along a new last dimension consists of."""
    rank = value(node).dim()
    if node.target is aten.stack.default:
        parts = node.args[0]
        if argument(node, "dim") not in (-1, rank - 1):
            return None
    elif node.target is aten.cat.default:
        columns = node.args[0]
        if argument(node, "dim") not in (-1, rank - 1):
            return None
        if any(c.target is not aten.unsqueeze.default or c.args[1] not in (-1, rank - 1) for c in columns):  # fmt: skip
            return None
        parts = [column.args[0] for column in columns]
    else:
        return None
    # A part of another type would be converted when it is stacked, before the steps that follow.
    alike = all(value(part).dtype is value(node).dtype for part in parts)
    return (parts[0], parts[1]) if len(parts) == 2 and alike else None


def _keeps_halves(node: fx.Node) -> bool:
    """Whether each half of a result depends on the same half of the first operand only."""
    if node.target is aten.view.default:
        return all(value(one).shape[-1] % 2 == 0 for one in (node, node.args[0]))
    if node.target in _CASTS:
        return set(node.kwargs) <= {"dtype"}
    if node.target not in _BINARY or node.kwargs:
        return False
    first, second = node.args
    if not isinstance(first, fx.Node) or value(first).shape != value(node).shape:
        return False
    return not isinstance(second, fx.Node) or value(second).shape[-1:] in ((), (1,))


def _half_of(step: fx.Node, operand: fx.Node, build: Builder) -> fx.Node:
    """An operator on one half of its operand."""
    if step.target is aten.view.default:
        *shape, last = value(step).shape
        # The stacked tensor can be viewed in other shapes, but its parts may have any strides.
        return build(aten.reshape.default, operand, [*shape, last // 2])
    return build(step.target, operand, *step.args[1:], **step.kwargs)


def _users(node: fx.Node) -> list[fx.Node]:
    """The calls that use a tensor, without assertions about its type."""
    return [user for user in node.users if user.target is not _CHECK]
