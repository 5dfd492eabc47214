"""Scatters with a reduction, and the gathers of their gradients, in the forms that the frontends and IREE take."""

from __future__ import annotations

import math

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.frontends.lowering.fx_rewrites.edit import Builder, argument, aten, calls, each, value

_REDUCE = aten.scatter_reduce.two
COLUMNS = 64
"""More columns than this stay one scatter: a program of thousands would help nobody."""

ON_STACK = 1 << 14
"""Bytes of indices and updates from which they are written to memory. iree-compile allows a
dispatch 32 KiB of stack unless it is told otherwise."""

_JOINS = {
    "prod": aten.mul.Tensor,
    "amax": aten.maximum.default,
    "amin": aten.minimum.default,
}


def _neutral(reduction: str, dtype: torch.dtype) -> float:
    """What a reduction leaves unchanged, in a type that is not boolean."""
    if reduction in ("sum", "prod"):
        return {"sum": 0, "prod": 1}[reduction]
    if dtype.is_floating_point:
        return {"amax": -math.inf, "amin": math.inf}[reduction]
    limits = torch.iinfo(dtype)
    return {"amax": limits.min, "amin": limits.max}[reduction]


def _reduction(node: fx.Node, *names: str) -> tuple[fx.Node, int, fx.Node, fx.Node, str] | None:
    """(self, dim, index, src, reduction) of a scatter_reduce by one of `names`, None for others and for booleans."""
    base, dim, index, src, reduction = node.args[:5]
    if reduction not in names or value(base).dtype is torch.bool or not value(base).dim():
        return None
    return base, dim % value(base).dim(), index, src, reduction


@each(aten.scatter_add.default, _REDUCE, with_dynamic=True)
def dimension_from_the_front(node: fx.Node) -> fx.Node | None:
    """A scatter names its dimension from the front. torch-mlir 20261001 crashes (SIGSEGV) if it is counted from the last one."""
    base, dim = node.args[:2]
    if dim >= 0:
        return None
    return Builder(node)(node.target, base, dim + max(1, value(base).dim()), *node.args[2:], **node.kwargs)  # fmt: skip


@each(_REDUCE)
def mean_as_sum(node: fx.Node) -> fx.Node | None:
    """A mean is a sum divided by a count, as PyTorch computes it (integers: floored).

    PyTorch/XLA 2.9 captures no scatter_reduce with `mean` ("aten::scatter_reduce.two");
    torch-mlir 20261001 lowers no scatter_reduce to StableHLO.
    """
    if (scatter := _reduction(node, "mean")) is None:
        return None
    base, dim, index, src, _ = scatter
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
        return build(aten.div.Tensor, total, count)
    return build(aten.div.Tensor_mode, total, count, rounding_mode="floor")


@each(_REDUCE)
def without_self(node: fx.Node) -> fx.Node | None:
    """`include_self=False` is a reduction into neutral elements where anything lands.

    PyTorch/XLA 2.9 captures no scatter_reduce without self ("aten::scatter_reduce.two");
    torch-mlir 20261001 lowers no scatter_reduce to StableHLO.
    """
    scatter = _reduction(node, "sum", *_JOINS)
    if scatter is None or argument(node, "include_self"):
        return None
    base, dim, index, src, reduction = scatter
    build, dtype = Builder(node), value(base).dtype
    ones = build(aten.full_like.default, index, 1, dtype=torch.float32)
    none = build.full(list(value(base).shape), 0.0, torch.float32)
    hits = build(aten.scatter_add.default, none, dim, index, ones)
    touched = build(aten.gt.Scalar, hits, 0)
    start = _full(build, base, _neutral(reduction, dtype))
    start = build(aten.where.self, touched, start, base)
    return build(_REDUCE, start, dim, index, src, reduction)


@each(_REDUCE)
def reduce_into_neutral(node: fx.Node) -> fx.Node | None:
    """A scatter_reduce into neutral elements, which are reduced with self afterwards.

    torch-mlir 20261001 lowers scatter_add to StableHLO and no scatter_reduce, so the exporter lowers each as a sum and replaces the addition
    afterwards. Before that, a maximum and a minimum of the same tensors would be equal sums, which torch-mlir makes one; with neutral elements
    of their own they differ.
    """
    scatter = _reduction(node, *_JOINS)
    if scatter is None or not argument(node, "include_self"):
        return None
    base, dim, index, src, reduction = scatter
    build = Builder(node)
    start = _full(build, base, _neutral(reduction, value(base).dtype))
    return build(_JOINS[reduction], base, build(_REDUCE, start, dim, index, src, reduction))


@each(_REDUCE)
def sum_as_add(node: fx.Node) -> fx.Node | None:
    """scatter_reduce with `sum` is scatter_add.

    torch-mlir 20261001 lowers no scatter_reduce to StableHLO; scatter_add it does.
    """
    scatter = _reduction(node, "sum")
    if scatter is None or not argument(node, "include_self"):
        return None
    return Builder(node)(aten.scatter_add.default, *scatter[:4])


@each(aten.scatter_add.default)
def add_by_rows(node: fx.Node) -> fx.Node | None:
    """A scatter_add whose index is the same along a row adds whole rows (index_put).

    PyTorch has an index for each element; as StableHLO that is an index tensor of the size of
    the updates times their rank, which IREE 3.13 puts on the stack of one dispatch: "exceeded
    stack allocation limit", or a segmentation fault at run time (GraphSAGE on Cora's sizes:
    182 MB, in every frontend). Rows are also 3 to 12 times faster (13,264 rows of 8 and 64).
    The rows are added in the same order.
    """
    base, dim, index, src = node.args[:4]
    if (rows := rows_of_index(base, dim, index, src)) is None:
        return None
    build = Builder(node)
    return build(aten.index_put.default, base, [build(aten.view.default, rows, [-1])], src, True)


@each(aten.gather.default)
def gather_by_rows(node: fx.Node) -> fx.Node | None:
    """A gather whose index is the same along a row takes whole rows (index_select).

    The gradient of a scatter that adds rows is such a gather. mask-index-at-full-length follows a mask through rows
    that are taken, not through an index for each element, and rows need an index that is as many times smaller.
    """
    source, dim, index = node.args[:3]
    if (rows := rows_of_index(source, dim, index, index)) is None:
        return None
    build = Builder(node)
    return build(aten.index_select.default, source, 0, build(aten.view.default, rows, [-1]))


@each(_REDUCE)
def reduce_by_columns(node: fx.Node) -> fx.Node | None:
    """A scatter_reduce whose index is the same along a row is one of vectors for each column.

    As add_by_rows; PyTorch has no operator that all captures take and that reduces whole
    rows by anything but a sum. Up to COLUMNS columns.
    """
    scatter = _reduction(node, *_JOINS)
    if scatter is None or not argument(node, "include_self"):
        return None
    base, dim, index, src, reduction = scatter
    rows = rows_of_index(base, dim, index, src)
    shape = value(base).shape
    width = math.prod(shape[1:])
    if rows is None or len(shape) == 1 or not 1 <= width <= COLUMNS:
        return None
    build = Builder(node)
    rows = build(aten.view.default, rows, [-1])
    into = build(aten.view.default, base, [shape[0], width])
    updates = build(aten.view.default, src, [-1, width])
    columns = []
    for column in range(width):
        vectors = [build(aten.select.int, matrix, 1, column) for matrix in (into, updates)]
        columns.append(build(_REDUCE, vectors[0], 0, rows, vectors[1], reduction))
    columns = [build(aten.unsqueeze.default, column, 1) for column in columns]
    joined = build(aten.cat.default, columns, 1) if width > 1 else columns[0]
    return build(aten.view.default, joined, list(shape))


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
        scattered = _added_rows(node) if by_rows else _reduced(node)
        if scattered is None:
            continue
        index, updates, dim, reduction = scattered
        row = value(node.args[0]).shape[1:] if by_rows else ()
        items = value(index).numel() * math.prod(row)
        indices = value(index).numel() * value(index).element_size()
        if indices + items * value(updates).element_size() < ON_STACK:
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


def _full(build: Builder, like: fx.Node, number: float) -> fx.Node:
    """A tensor of one number in the shape and type of another."""
    tensor = value(like)
    return build.full(list(tensor.shape), number, tensor.dtype)


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
