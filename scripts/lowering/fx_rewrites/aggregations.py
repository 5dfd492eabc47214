"""Products of aggregated rows: the product first, so that fewer columns are gathered and added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.lowering.fx_rewrites.edit import (
    WIDE,
    Builder,
    argument,
    aten,
    each,
    replace,
    value,
)
from scripts.lowering.fx_rewrites.scatters import rows_of_index

_ADDITIONS = (aten.scatter_add.default, aten.scatter_reduce.two)
_ZEROS = (aten.zeros.default, aten.new_zeros.default, aten.zeros_like.default)
_FILLED = {
    aten.full.default: "fill_value",
    aten.new_full.default: "fill_value",
    aten.full_like.default: "fill_value",
    aten.fill.Scalar: "value",
}
"""Operators whose result is one number everywhere, and which argument that is."""
_OF_TYPE = {aten.new_zeros.default: 0, aten.new_ones.default: 1, aten.new_full.default: None}
"""Operators that take no value of their first argument, only its type, with their number (None: an argument)."""


def project_before_aggregation(program: ExportedProgram) -> bool:
    """`aggregate(x) @ w` becomes `aggregate(x @ w)` if `w` has fewer columns than rows.

    An aggregation is a chain of gathers of rows, additions of rows by index to zeros, and products or
    quotients with one number per row, such as the sum or the mean over the neighbours of a node. Each
    of these is linear and treats all columns alike, so it commutes with a product from the right. A
    bias is added after the aggregation, as before. The order of sums changes.

    This is not done if something else uses a value between x and the product, because that value
    would still be computed, or if x has more rows than the aggregated tensor, because the product
    would need more FLOPs.
    """
    changed = _projected(program)
    if changed:
        # Later rewrites must not find the aggregations that nothing uses any more.
        program.graph.eliminate_dead_code()
    return changed


@each(aten.mm.default, aten.matmul.default, aten.addmm.default, aten.linear.default)
def _projected(node: fx.Node) -> fx.Node | None:
    """The aggregation of a product, for a product of an aggregation."""
    operands = _operands(node)
    chain = _aggregation(node, operands[0]) if operands else []
    if not operands or not chain or not _moves_less(node, chain):
        return None
    _, right, bias = operands
    for step in chain:
        _detach(step.node)
    target = aten.linear.default if node.target is aten.linear.default else aten.mm.default
    result = Builder(node)(target, chain[-1].operand, right)
    for step in reversed(chain):
        result = step.again(Builder(node, like=step.node), result)
    return result if bias is None else Builder(node)(aten.add.Tensor, result, bias)


@dataclass(frozen=True)
class _Step:
    """An operator of an aggregation. `moves`: whether it gathers or adds rows. `again` builds it for another operand."""

    node: fx.Node
    operand: fx.Node
    moves: bool
    again: Callable[[Builder, fx.Node], fx.Node]


def _operands(node: fx.Node) -> tuple[fx.Node, fx.Node, fx.Node | None] | None:
    """The two different matrices of a product, and its bias or None; None for a product of something else."""
    bias = None
    if node.target is aten.linear.default:
        left, right = node.args[:2]
        bias = argument(node, "bias")
    elif node.target is aten.addmm.default:
        bias, left, right = node.args[:3]
        if argument(node, "beta") != 1 or argument(node, "alpha") != 1:
            return None
    else:
        left, right = node.args
    shapes = (value(left).dim(), value(right).dim())
    known = value(node).dtype in WIDE and shapes == (2, 2) and left is not right
    return (left, right, bias) if known else None


def _aggregation(product: fx.Node, left: fx.Node) -> list[_Step]:
    """The operators between a product and the rows that are aggregated, starting at the product.

    The last one gathers or adds rows. The list is empty if none does.
    """
    chain: list[_Step] = []
    user, node = product, left
    while _users(node) == [user] and (step := _step(node)):
        chain.append(step)
        user, node = node, step.operand
    while chain and not chain[-1].moves:
        chain.pop()
    return chain


def _users(node: fx.Node) -> list[fx.Node]:
    """The calls that use the values of a tensor."""
    return [user for user in node.users if user.target not in _OF_TYPE]


def _detach(node: fx.Node) -> None:
    """Let the calls that use only the type of a tensor be without it."""
    for user in [user for user in node.users if user.target in _OF_TYPE]:
        number = _OF_TYPE[user.target]
        if number is None:
            number = argument(user, "fill_value")
        kind = {"dtype": value(user).dtype, "device": value(user).device}
        replace(user, Builder(user)(aten.full.default, user.args[1], number, **kind))


def _moves_less(product: fx.Node, chain: list[_Step]) -> bool:
    """Whether the product has fewer columns than the rows that are aggregated, and as many rows or more."""
    (rows, columns), source = value(product).shape, value(chain[-1].operand).shape
    return all(isinstance(n, int) for n in (rows, *source)) and rows >= source[0] and columns < source[1]  # fmt: skip


def _step(node: fx.Node) -> _Step | None:
    """A linear operator on a matrix that treats all columns alike; None if a node is not one."""
    if node.op != "call_function":
        return None
    step = _gather(node) or _addition(node) or _scale(node)
    if step is None or value(step.operand).dim() != 2:
        return None
    return step if value(step.operand).dtype is value(node).dtype else None


def _gather(node: fx.Node) -> _Step | None:
    """Rows of a matrix, by a vector of indices."""
    if node.target is aten.index_select.default:
        operand, dim, _ = node.args
        fits = dim in (0, -2)
    elif node.target is aten.index.Tensor:
        operand, indices = node.args
        fits = len(indices) == 1 and _is_vector_of_indices(indices[0])
    else:
        return None

    def again(build: Builder, x: fx.Node) -> fx.Node:
        args = [x if given is operand else given for given in node.args]
        return build(node.target, *args, **node.kwargs)

    return _Step(node, operand, True, again) if fits else None


def _addition(node: fx.Node) -> _Step | None:
    """Rows that are added to zeros, by an index per row, or per element but the same along each row."""
    if node.target is aten.index_put.default and argument(node, "accumulate"):
        base, (*others, index), rows = node.args[:3]
        fits = not others and _is_vector_of_indices(index)
    elif node.target in _ADDITIONS and (node.target is _ADDITIONS[0] or node.args[4] == "sum"):
        base, dim, index, rows = node.args[:4]
        index = rows_of_index(base, dim, index, rows)
        fits = index is not None
    else:
        return None
    height = value(base).shape[0] if value(base).dim() == 2 else None
    if not fits or not isinstance(height, int) or not _is_zero(base):
        return None

    def again(build: Builder, x: fx.Node) -> fx.Node:
        width, dtype, device = value(x).shape[1], value(x).dtype, value(x).device
        zeros = build(aten.full.default, [height, width], 0.0, dtype=dtype, device=device)
        if node.target is aten.index_put.default:
            return build(aten.index_put.default, zeros, [index], x, True)
        spread = build(aten.expand.default, index, [-1, width])
        return build(aten.scatter_add.default, zeros, 0, spread, x)

    return _Step(node, rows, True, again)


def _scale(node: fx.Node) -> _Step | None:
    """A product or quotient with one number, or with one number per row."""
    if node.target not in (aten.mul.Tensor, aten.div.Tensor):
        return None
    ways = [node.args]
    if node.target is aten.mul.Tensor:
        ways.append(node.args[::-1])
    for operand, factor in ways:
        if not isinstance(operand, fx.Node) or value(operand).shape != value(node).shape:
            continue
        if (same := _without_columns(factor, value(node))) is not None:
            break
    else:
        return None
    return _Step(node, operand, False, lambda build, x: build(node.target, x, same))


def _without_columns(factor: Any, result: torch.Tensor) -> Any:
    """A factor that is the same along each row of a result, as a number or a tensor of one column."""
    if not isinstance(factor, fx.Node):
        return factor
    if factor.target is aten.expand.default and value(factor).shape == result.shape:
        factor = factor.args[0]
    shape = value(factor).shape
    return factor if not len(shape) or shape[-1] == 1 else None


def _is_vector_of_indices(index: fx.Node | None) -> bool:
    return index is not None and value(index).dim() == 1 and value(index).dtype is not torch.bool


def _is_zero(node: fx.Node) -> bool:
    """Whether all values of a tensor are zero, judged by the operator that makes it."""
    filled_by = _FILLED.get(node.target)
    return node.target in _ZEROS or (filled_by is not None and argument(node, filled_by) == 0)
