"""Updates and sorts whose results IREE writes over what is still read, in forms that it keeps apart.

`vmfbench fuzz` has found them, and workflow/known_failures.yaml names the causes (torch-mlir 20261001, IREE 3.13). Values are those of eager, but for the order of sums into a tensor itself.
"""

from __future__ import annotations

import math
import operator

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.frontends.lowering.fx_rewrites.edit import (
    RESHAPED,
    SAME,
    Builder,
    argument,
    aten,
    calls,
    each,
    is_static,
    operands,
    replace,
    source_of,
    value,
)


@each(aten.index_put.default)
def index_put_of_itself(node: fx.Node) -> fx.Node | None:
    """Values of a tensor that are put into itself, at positions of one dimension, are gathered by the inverse of the positions.

    IREE 3.13 reads and writes the same buffer in one dispatch: it takes values that it has overwritten, or refuses that.
    """
    target, source = argument(node, "self"), argument(node, "values")
    indices = argument(node, "indices")
    places = [dim for dim, index in enumerate(indices) if index is not None]
    if len(places) != 1 or argument(node, "accumulate") or not _is_computed_with(source, target):
        return None
    call, (dim,) = Builder(node), places
    index, shape = indices[dim], list(value(target).shape)
    if value(index).dim() != 1 or value(index).dtype is torch.bool:
        return None
    count, rest = value(index).shape[0], [1] * (len(shape) - dim - 1)
    positions = call.arange(0, count, 1)
    none = call.full(shape[dim : dim + 1], -1, torch.int64)
    inverse = call(aten.index_put.default, none, [index], positions)
    source = call(aten.expand.default, source, [*shape[:dim], count, *shape[dim + 1 :]])
    moved = call(aten.index_select.default, source, dim, call(aten.clamp.default, inverse, 0))
    is_moved = call(aten.view.default, call(aten.ge.Scalar, inverse, 0), [shape[dim], *rest])
    return call(aten.where.self, is_moved, moved, target)


@each(aten.index_put.default, aten.scatter_add.default, with_dynamic=True)
def sum_into_itself_apart(node: fx.Node) -> fx.Node | None:
    """Values of a tensor that are added to itself, at other positions, are added to zeros first, and the tensor is added to that. Where
    several have one position, the sum has another order.

    IREE 3.13 reads and writes the same buffer in one dispatch: it adds values that it has changed, or crashes (SIGSEGV).
    """
    is_put = node.target is aten.index_put.default
    target, source = argument(node, "self"), argument(node, "values" if is_put else "src")
    first, second = (source_of(tensor, RESHAPED) for tensor in (target, source))
    if first is not second or (is_put and not argument(node, "accumulate")):
        return None
    call = Builder(node)
    sums = call(node.target, call(aten.zeros_like.default, target), *node.args[1:], **node.kwargs)
    return call(aten.add.Tensor, target, sums)


_UPDATES = (
    *(aten.slice_scatter.default, aten.index_put.default, aten.scatter_add.default),
    *(aten.scatter.src, aten.scatter_reduce.two),
)


@each(*_UPDATES, with_dynamic=True)
def update_of_copy(node: fx.Node) -> fx.Node | None:
    """Floats that are a result beside their update are copied before it, by a choice that IREE does not fold.

    IREE 3.13 writes the update over them.
    """
    target = argument(node, "self")
    if not value(target).is_floating_point() or not _is_result(source_of(target, RESHAPED)):
        return None
    call = Builder(node)
    nan = call.full([], math.nan, value(target).dtype)
    copy = call(aten.where.self, call(aten.ne.Tensor, target, target), nan, target)
    return call(node.target, copy, *node.args[1:], **node.kwargs)


def _is_result(node: fx.Node) -> bool:
    """Whether a tensor is a result of the program, as it is or in another shape."""
    return any(n.op == "output" or (n.target in RESHAPED and _is_result(n)) for n in node.users)


_SORTS = (aten.sort.default, aten.sort.stable, aten.argsort.default, aten.topk.default)


def sorts_of_own_shapes(program: ExportedProgram) -> bool:
    """Each sort and topk of a program has another shape: rows of zeros are added, and taken from its results, where one before has the same.

    In IREE 3.13, sorts of one shape share the buffer of their positions, and each permutes those of the others.
    """
    seen: set[tuple] = set()
    changed = False
    for node in calls(program, *_SORTS):
        tensor = argument(node, "self")
        if not value(tensor).numel() or not value(tensor).dim() or not is_static(tensor):
            continue
        is_line = value(tensor).dim() == 1
        shape = [1] * is_line + list(value(tensor).shape)
        dim = argument(node, "dim") % value(tensor).dim() + is_line
        rows = max((size, other) for other, size in enumerate(shape) if other != dim)[1]
        count = shape[rows]
        while (order := _order(shape, dim)) in seen:
            shape[rows] += 1
        seen.add(order)
        if shape[rows] > count:
            _sort_with_rows(node, dim, rows, shape, count)
            changed = True
    return changed


def _order(shape: list[int], dim: int) -> tuple:
    """What sorts along `dim` have in common that share their positions."""
    return tuple((size, other == dim) for other, size in enumerate(shape) if size > 1)


def _sort_with_rows(node: fx.Node, dim: int, rows: int, shape: list[int], count: int) -> None:
    """Let a sort along `dim` be one of a tensor of `shape`, of which `count` rows are its own."""
    call, tensor = Builder(node), argument(node, "self")
    is_line = value(tensor).dim() < len(shape)
    if is_line:
        tensor = call(aten.unsqueeze.default, tensor, 0)
    added = call.full([*shape[:rows], shape[rows] - count, *shape[rows + 1 :]], 0, value(tensor).dtype)  # fmt: skip
    given = {"self": call(aten.cat.default, [tensor, added], rows), "dim": dim}
    args, kwargs = [], {}
    for declared in node.target._schema.arguments:
        passed = given.get(declared.name, argument(node, declared.name))
        if declared.kwarg_only:
            kwargs[declared.name] = passed
        else:
            args.append(passed)
    new = call(node.target, *args, **kwargs)

    def own(result: fx.Node) -> fx.Node:
        first = call(aten.slice.Tensor, result, rows, 0, count)
        return call(aten.squeeze.dim, first, 0) if is_line else first

    if node.target is aten.argsort.default:
        replace(node, own(new))
        return
    for user in list(node.users):
        replace(user, own(call(operator.getitem, new, user.args[1])))
    node.graph.erase_node(node)


def _is_computed_with(node: fx.Node, other: fx.Node) -> bool:
    """Whether a tensor is another one, or is computed from it in ways that IREE fuses with what takes it."""
    if node is other:
        return True
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    fuses = torch.Tag.pointwise in target.tags or target.is_view or target in SAME
    return fuses and any(_is_computed_with(operand, other) for operand in operands(node))
