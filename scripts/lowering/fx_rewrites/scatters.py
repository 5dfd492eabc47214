"""Scatters with a reduction, and the gathers of their gradients, in the forms that the frontends and IREE take."""

from __future__ import annotations

import math

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.lowering.fx_rewrites.edit import Builder, argument, aten, calls, replace, value

_REDUCE = aten.scatter_reduce.two
COLUMNS = 64
"""More columns than this stay one scatter: a program of thousands would help nobody."""

ON_STACK = 1 << 14
"""Bytes of indices and updates from which they are written to memory. iree-compile allows a
dispatch 32 KiB of stack unless it is told otherwise."""


def _neutral(reduction: str, dtype: torch.dtype) -> float:
    """What a reduction leaves unchanged, in a type that is not boolean."""
    if reduction in ("sum", "prod"):
        return {"sum": 0, "prod": 1}[reduction]
    if dtype.is_floating_point:
        return {"amax": -math.inf, "amin": math.inf}[reduction]
    limits = torch.iinfo(dtype)
    return {"amax": limits.min, "amin": limits.max}[reduction]


def _reductions(program: ExportedProgram, *names: str) -> list[tuple[fx.Node, ...]]:
    """(node, self, dim, index, src, reduction) of each scatter_reduce by one of `names`."""
    found = []
    for node in calls(program, _REDUCE):
        base, dim, index, src, reduction = node.args[:5]
        if reduction in names and value(base).dtype is not torch.bool and value(base).dim():
            found.append((node, base, dim % value(base).dim(), index, src, reduction))
    return found


def mean_as_sum(program: ExportedProgram) -> bool:
    """A mean is a sum divided by a count, as PyTorch computes it (integers: floored).

    PyTorch/XLA 2.9 captures no scatter_reduce with `mean` ("aten::scatter_reduce.two");
    torch-mlir 20261001 lowers no scatter_reduce to StableHLO.
    """
    found = _reductions(program, "mean")
    for node, base, dim, index, src, _ in found:
        build, dtype = Builder(node), value(base).dtype
        ones = build(aten.full_like.default, index, 1, dtype=dtype)
        own = 1
        if not argument(node, "include_self"):
            own = 0
            hits = build(aten.scatter_add.default, _full(build, base, 0), dim, index, ones)
            touched = build(aten.gt.Scalar, hits, 0)
            base = build(aten.where.self, touched, _full(build, base, 0), base)
        count = build(aten.scatter_add.default, _full(build, base, own), dim, index, ones)
        count = build(aten.clamp.default, count, 1)
        total = build(aten.scatter_add.default, base, dim, index, src)
        if dtype.is_floating_point:
            mean = build(aten.div.Tensor, total, count)
        else:
            mean = build(aten.div.Tensor_mode, total, count, rounding_mode="floor")
        replace(node, mean)
    return bool(found)


def without_self(program: ExportedProgram) -> bool:
    """`include_self=False` is a reduction into neutral elements where anything lands.

    PyTorch/XLA 2.9 captures no scatter_reduce without self ("aten::scatter_reduce.two");
    torch-mlir 20261001 lowers no scatter_reduce to StableHLO.
    """
    found = [
        each
        for each in _reductions(program, "sum", "prod", "amax", "amin")
        if not argument(each[0], "include_self")
    ]
    for node, base, dim, index, src, reduction in found:
        build, dtype = Builder(node), value(base).dtype
        ones = build(aten.full_like.default, index, 1, dtype=torch.float32)
        none = build.full(list(value(base).shape), 0.0, torch.float32)
        hits = build(aten.scatter_add.default, none, dim, index, ones)
        touched = build(aten.gt.Scalar, hits, 0)
        start = _full(build, base, _neutral(reduction, dtype))
        start = build(aten.where.self, touched, start, base)
        replace(node, build(_REDUCE, start, dim, index, src, reduction))
    return bool(found)


def sum_as_add(program: ExportedProgram) -> bool:
    """scatter_reduce with `sum` is scatter_add.

    torch-mlir 20261001 lowers no scatter_reduce to StableHLO; scatter_add it does.
    """
    found = [e for e in _reductions(program, "sum") if argument(e[0], "include_self")]
    for node, base, dim, index, src, _ in found:
        replace(node, Builder(node)(aten.scatter_add.default, base, dim, index, src))
    return bool(found)


def add_by_rows(program: ExportedProgram) -> bool:
    """A scatter_add whose index is the same along a row adds whole rows (index_put).

    PyTorch has an index for each element; as StableHLO that is an index tensor of the size of
    the updates times their rank, which IREE 3.13 puts on the stack of one dispatch: "exceeded
    stack allocation limit", or a segmentation fault at run time (GraphSAGE on Cora's sizes:
    182 MB, in every frontend). Rows are also 3 to 12 times faster (13,264 rows of 8 and 64).
    The rows are added in the same order.
    """
    changed = False
    for node in calls(program, aten.scatter_add.default):
        base, dim, index, src = node.args[:4]
        rows = rows_of_index(base, dim, index, src)
        if rows is not None:
            build = Builder(node)
            rows = build(aten.view.default, rows, [-1])
            new = build(aten.index_put.default, base, [rows], src, True)
            replace(node, new)
            changed = True
    return changed


def gather_by_rows(program: ExportedProgram) -> bool:
    """A gather whose index is the same along a row takes whole rows (index_select).

    The gradient of a scatter that adds rows is such a gather. mask-index-at-full-length follows a mask through rows
    that are taken, not through an index for each element, and rows need an index that is as many times smaller.
    """
    changed = False
    for node in calls(program, aten.gather.default):
        source, dim, index = node.args[:3]
        rows = rows_of_index(source, dim, index, index)
        if rows is not None:
            build = Builder(node)
            rows = build(aten.view.default, rows, [-1])
            replace(node, build(aten.index_select.default, source, 0, rows))
            changed = True
    return changed


def reduce_by_columns(program: ExportedProgram) -> bool:
    """A scatter_reduce whose index is the same along a row is one of vectors for each column.

    As add_by_rows; PyTorch has no operator that both captures take and that reduces whole
    rows by anything but a sum. Up to COLUMNS columns.
    """
    changed = False
    for node, base, dim, index, src, reduction in _reductions(program, "prod", "amax", "amin"):
        rows = rows_of_index(base, dim, index, src)
        shape = value(base).shape
        width = math.prod(shape[1:])
        column_by_column = len(shape) > 1 and 1 <= width <= COLUMNS
        if rows is None or not column_by_column or not argument(node, "include_self"):
            continue
        build = Builder(node)
        rows = build(aten.view.default, rows, [-1])
        into = build(aten.view.default, base, [shape[0], width])
        updates = build(aten.view.default, src, [value(src).shape[0], width])
        columns = [
            build(
                _REDUCE,
                build(aten.select.int, into, 1, column),
                0,
                rows,
                build(aten.select.int, updates, 1, column),
                reduction,
            )
            for column in range(width)
        ]
        columns = [build(aten.unsqueeze.default, column, 1) for column in columns]
        joined = build(aten.cat.default, columns, 1) if width > 1 else columns[0]
        replace(node, build(aten.view.default, joined, list(shape)))
        changed = True
    return changed


def reduce_as_comparison(program: ExportedProgram) -> bool:
    """`out[n] = reduce over e of src[e] where index[e] == n`: no scatter at all.

    torch-mlir 20261001 lowers no scatter_reduce to StableHLO, and no other operator that could
    stand for a maximum, minimum or product. It takes (rows out) × (rows in) comparisons a
    column, in one fused loop: 0.2 s for 2,708 × 13,264 × 8 on two cores, where a scatter
    takes milliseconds. A product's order of factors may change.
    """
    changed = False
    for node, base, dim, index, src, reduction in _reductions(program, "prod", "amax", "amin"):
        shape, given = value(base).shape, value(src).shape
        others = [d for d in range(len(shape)) if d != dim]
        fits = value(index).shape == given and all(shape[d] == given[d] for d in others)
        if not fits or not given[dim] or not argument(node, "include_self"):
            continue
        build = Builder(node)
        numbers = build(
            aten.arange.start_step, 0, shape[dim], 1, dtype=torch.int64, device=torch.device("cpu")
        )
        spread = [1] * (len(shape) + 1)
        spread[dim] = shape[dim]
        numbers = build(aten.view.default, numbers, spread)
        hit = build(aten.eq.Tensor, build(aten.unsqueeze.default, index, dim), numbers)
        updates = build(aten.unsqueeze.default, src, dim)
        updates = build.where(hit, updates, _neutral(reduction, value(src).dtype))
        if reduction == "prod":
            result = build(aten.prod.dim_int, updates, dim + 1, dtype=value(src).dtype)
            result = build(aten.mul.Tensor, base, result)
        else:
            reduce = {"amax": aten.amax.default, "amin": aten.amin.default}[reduction]
            join = {"amax": aten.maximum.default, "amin": aten.minimum.default}[reduction]
            result = build(join, base, build(reduce, updates, [dim + 1]))
        replace(node, result)
        changed = True
    return changed


def from_memory(program: ExportedProgram) -> bool:
    """Indices and updates of a scatter end in a row that changes nothing.

    IREE 3.13 fuses what computes them into the scatter's dispatch from O2 on (aggressive
    fusion), where all of it lies on the stack: "exceeded stack allocation limit", or a
    segmentation fault at run time. A concatenation is always written to memory. The row adds
    zero, multiplies by one, or is an infinity to a maximum or minimum. Rows that are added at an index of
    several dimensions, as in the gradient of an embedding, are first made a list of rows.
    """
    changed = False
    for node in calls(program, aten.scatter_add.default, aten.index_put.default, _REDUCE):
        by_rows = node.target is aten.index_put.default
        found = _added_rows(node) if by_rows else _reduced(node)
        if found is None:
            continue
        index, updates, dim, reduction = found
        row = value(node.args[0]).shape[1:] if by_rows else ()
        items = value(index).numel() * math.prod(row)
        if _bytes(index) + items * value(updates).element_size() < ON_STACK:
            continue
        build = Builder(node)
        if by_rows:
            index, updates = _listed(build, node.args[0], index, updates)
        ends = []
        for tensor, number in ((index, 0), (updates, _neutral(reduction, value(updates).dtype))):
            along = 0 if value(tensor).dim() == 1 else dim
            shape = list(value(tensor).shape)
            shape[along] = 1
            end = build.full(shape, number, value(tensor).dtype)
            ends.append(build(aten.cat.default, [tensor, end], along))
        index, updates = ends
        if by_rows:
            node.args = (node.args[0], [index], updates, *node.args[3:])
        else:
            node.args = (*node.args[:2], index, updates, *node.args[4:])
        changed = True
    return changed


def _added_rows(node: fx.Node) -> tuple[fx.Node, fx.Node, int, str] | None:
    """(index, updates, 0, "sum") of an index_put that adds whole rows, else None."""
    base, indices, updates = node.args[:3]
    if not argument(node, "accumulate") or len(indices) != 1 or indices[0] is None:
        return None
    index = indices[0]
    whole = (*value(index).shape, *value(base).shape[1:])
    known = value(index).dtype is not torch.bool and all(isinstance(n, int) for n in whole)
    if not known and value(index).dim() != 1:
        return None
    if not value(index).dim() or value(updates).dim() != len(whole) or not value(index).numel():
        return None
    return index, updates, 0, "sum"


def _reduced(node: fx.Node) -> tuple[fx.Node, fx.Node, int, str] | None:
    """(index, updates, dim, reduction) of a scatter with an index per element that has a neutral
    element, else None."""
    base, dim, index, updates = node.args[:4]
    reduction = "sum"
    if node.target is _REDUCE:
        reduction = node.args[4]
        if reduction == "mean" or not argument(node, "include_self"):
            return None
    if not value(base).dim() or value(index).shape != value(updates).shape:
        return None
    return (index, updates, dim, reduction) if value(index).numel() else None


def _listed(
    build: Builder, base: fx.Node, index: fx.Node, updates: fx.Node
) -> tuple[fx.Node, fx.Node]:
    """The index as a vector, with one row of updates for each."""
    count = value(index).dim()
    if count == 1:
        return index, updates
    row = list(value(base).shape[1:])
    updates = build(aten.expand.default, updates, [*value(index).shape, *row])
    return (
        build(aten.reshape.default, index, [-1]),
        build(aten.reshape.default, updates, [value(index).numel(), *row]),
    )


def _bytes(node: fx.Node) -> int:
    return value(node).numel() * value(node).element_size()


def _full(build: Builder, like: fx.Node, number: float) -> fx.Node:
    """A tensor of one number in the shape and type of another."""
    found = value(like)
    return build.full(list(found.shape), number, found.dtype)


def rows_of_index(base: fx.Node, dim: int, index: fx.Node, src: fx.Node) -> fx.Node | None:
    """The vector, or column, that `index` repeats along each row of `src`, if it does that."""
    shape, given = value(base).shape, value(src).shape
    if not len(shape) or dim % len(shape) != 0:
        return None
    if value(index).shape != given or shape[1:] != given[1:]:
        return None
    if len(shape) == 1:
        return index
    if index.target is not aten.expand.default:
        return None
    narrow = index.args[0]
    sizes = value(narrow).shape
    same = len(sizes) == len(given) and all(size == 1 for size in sizes[1:])
    return narrow if same and sizes[0] == given[0] else None
