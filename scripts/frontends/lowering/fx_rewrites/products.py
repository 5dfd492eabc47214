"""Matrix products that are faster another way, of aggregated rows and with weights of which two values are in one byte, and those that data tiling makes wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.frontends.lowering.fx_rewrites.edit import (
    RESHAPED,
    WIDE,
    Builder,
    argument,
    aten,
    calls,
    each,
    is_static,
    is_symbolic,
    operands,
    replace,
    source_of,
    value,
)
from scripts.frontends.lowering.fx_rewrites.scatters import rows_of_index

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
    while _users(node, _OF_TYPE) == [user] and (step := _step(node)):
        chain.append(step)
        user, node = node, step.operand
    while chain and not chain[-1].moves:
        chain.pop()
    return chain


def _users(node: fx.Node, without: Collection[Any]) -> list[fx.Node]:
    """The calls that use a tensor, `without` those of operators that need no value of it."""
    return [user for user in node.users if user.target not in without]


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
    filled_by = _FILLED.get(node.target)
    return node.target in _ZEROS or (filled_by is not None and argument(node, filled_by) == 0)


_CASTS = (torch.ops.prims.convert_element_type.default, aten._to_copy.default)
_BINARY = (aten.mul.Tensor, aten.sub.Tensor, aten.add.Tensor, aten.div.Tensor)
_CHECKS = (aten._assert_tensor_metadata.default,)
"""Assertions about the type of a tensor."""

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
        for check in calls(program, *_CHECKS):
            if not _users(check.args[0], _CHECKS):
                program.graph.erase_node(check)
        program.graph.eliminate_dead_code()
    return changed


@each(aten.mm.default, aten.linear.default)
def _split(node: fx.Node) -> fx.Node | None:
    """The sum of two products with the halves of a weight, with the bias of the original."""
    weight, x = _weight(node), node.args[0]
    # Splitting x has to be less work than interleaving the weight.
    if weight is None or not is_static(x) or value(x).numel() >= value(weight[0]).numel():
        return None
    build = Builder(node)
    if (halves := _halves(*weight, build)) is None:
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
        if _users(weight, _CHECKS) != [product]:
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
        if not _keeps_halves(node) or _users(node, _CHECKS) != [user]:
            return None
        chain.append(node)
        user, node = node, node.args[0]
    if _users(node, _CHECKS) != [user]:
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
        return all(value(operand).shape[-1] % 2 == 0 for operand in (node, node.args[0]))
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


_BATCHED = {aten.bmm.default: 0, aten.matmul.default: 0, aten.baddbmm.default: 1}
"""Products of batches of matrices, with the position of the first matrix."""
_SHAPED = (*RESHAPED, aten._unsafe_view.default)
"""Operators that keep the order of values."""
_TRANSPOSED = (aten.permute.default, aten.transpose.int)
_TILES = (4, 8, 16)
"""How many rows IREE packs together on CPUs; two fit where this matters."""


@each(*_BATCHED, with_dynamic=True)
def rows_packed_by_batch(node: fx.Node) -> fx.Node | None:
    """A matrix of a batched product is chosen by one condition for each batch, which always holds.

    Where a loop over the rows of all batches computes a matrix, the data tiling of IREE 3.13 packs it as one matrix, although the
    rows of a batch are no multiple of the tile. So rows of the product are wrong, as in `linear(x, w) @ y` with 3 batches of 15
    rows, or with a dynamic number of batches or rows. With an operand for each batch there is no such loop.
    """
    first = _BATCHED[node.target]
    matrices = node.args[first : first + 2]
    if any(value(matrix).dim() < 3 for matrix in matrices):
        return None
    batches = math.prod(value(node).shape[:-2])
    wrong = [_is_packed_as_one(m, batches, -1 - n) for n, m in enumerate(matrices)]
    if not any(wrong):
        return None
    call, args = Builder(node), list(node.args)
    for number, matrix in enumerate(matrices):
        if wrong[number]:
            args[first + number] = _with_operand_for_each_batch(call, matrix, matrices[1 - number])
    return call(node.target, *args, **node.kwargs)


def _with_operand_for_each_batch(call: Builder, matrix: fx.Node, other: fx.Node) -> fx.Node:
    """The matrix, where the first number of a batch is not both above and below 0: of the other matrix, or of this one if that repeats
    its batches."""
    repeats = source_of(other, _SHAPED).target is aten.expand.default
    if repeats or not _same(value(other).shape[:-2], value(matrix).shape[:-2]):
        other = matrix
    number = call(aten.select.int, call(aten.select.int, other, -1, 0), -1, 0)
    signs = (call(target, number, 0.0) for target in (aten.gt.Scalar, aten.lt.Scalar))
    never = call(aten.logical_and.default, *signs)
    for _ in range(2):
        never = call(aten.unsqueeze.default, never, -1)
    return call(aten.where.self, never, call.full([], 0, value(matrix).dtype), matrix)


def _is_packed_as_one(matrix: fx.Node, batches: Any, columns: int) -> bool:
    """Whether IREE may compute a matrix by a loop over the rows of all batches, and pack the result wrongly. `columns`: the dimension that
    the product sums, the last one or the one before.

    Such a loop has the columns apart where an operand is one value for each row, or one row for all, and where the result is viewed as batches.
    Elementwise operators on whole tensors, softmax, and what transposes the rows with batches have no such loop.
    """
    rank = value(matrix).dim()
    dims = (rank + (-3 - columns), rank + columns)
    if not _crosses_batches(batches, *(value(matrix).shape[dim] for dim in dims)):
        return False
    seen: set[fx.Node] = set()
    todo: list[tuple[fx.Node, int | None, int]] = [(matrix, *dims)]
    while todo:
        node, row, column = todo.pop()
        if node in seen or node.op != "call_function" or node.target in (aten._softmax.default, aten.softmax.int, *_BATCHED):  # fmt: skip
            continue
        seen.add(node)
        if node.target in (*_SHAPED, aten.expand.default, *_TRANSPOSED):
            if (moved := _before(node, row, column)) is not None:
                todo.append((node.args[0], *moved))
        elif _is_inner(value(node).shape, row, column) and node.all_input_nodes:
            sources = [source for source in operands(node) if value(source).dim()]
            if not _is_elementwise(node, sources):
                return True
            todo += [(source, row, column) for source in sources]
    return False


def _crosses_batches(batches: Any, rows: Any, columns: Any) -> bool:
    """Whether the rows of all batches need as many tiles as those of each batch, which is all that IREE compares, and not the same ones."""
    sizes = [size for size in (batches, rows, columns) if not is_symbolic(size)]
    if 1 in sizes or (not is_symbolic(rows) and rows % max(_TILES) == 0):
        return False
    if is_symbolic(batches) or is_symbolic(rows):
        return True
    return any(rows % tile and batches * (-rows % tile) < tile for tile in _TILES)


def _is_elementwise(node: fx.Node, sources: list[fx.Node]) -> bool:
    """Whether a call computes each value from one value of each of these tensors, none of which is repeated."""
    tags = getattr(node.target, "tags", ())
    return (node.target in _CASTS or torch.Tag.pointwise in tags) and all(
        source.target is not aten.expand.default and _same(value(source).shape, value(node).shape)
        for source in sources
    )


def _same(sizes: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two shapes are the same, without a guess about dynamic sizes."""
    return [str(size) for size in sizes] == [str(size) for size in others]


def _is_inner(shape: Sequence[Any], row: int | None, column: int) -> bool:
    """Whether columns are the last dimension of a tensor, and rows the one before it or (None) joined with others; dimensions of 1 do not count."""
    kept = _kept(shape)
    return kept[-1:] == [column] and (row is None or kept[-2:-1] == [row])


def _kept(shape: Sequence[Any]) -> list[int]:
    """The dimensions that are not 1."""
    return [dim for dim, size in enumerate(shape) if is_symbolic(size) or size != 1]


def _before(node: fx.Node, row: int | None, column: int) -> tuple[int | None, int] | None:
    """The dimensions of rows and columns in what a view, an expansion or a transposition is of, with None for rows that are joined with
    others; None if it does not have the columns."""
    shape, source = value(node).shape, value(node.args[0]).shape
    if node.target in _TRANSPOSED:
        dims = list(range(len(shape)))
        if node.target is aten.permute.default:
            dims = [dim % len(shape) for dim in node.args[1]]
        else:
            first, second = (dim % len(shape) for dim in node.args[1:])
            dims[first], dims[second] = second, first
        return None if row is None else dims[row], dims[column]
    if node.target is aten.expand.default:
        moved = {dim + len(shape) - len(source): dim for dim in _kept(source)}
        if row not in moved:
            return None
    else:
        moved = {}
        for dim, other in zip(reversed(_kept(shape)), reversed(_kept(source)), strict=False):
            if not _same([shape[dim]], [source[other]]):
                break
            moved[dim] = other
    if column not in moved:
        return None
    return moved.get(row) if row is not None else None, moved[column]
