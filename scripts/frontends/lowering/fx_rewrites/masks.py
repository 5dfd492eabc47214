"""Indexing by a boolean mask without a shape that depends on the mask's values.

`edge_index[:, mask]` has as many columns as the mask has True. Here it keeps all of them, and
what the mask leaves out is taken out where it would count: at the reductions.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from scripts.frontends.lowering.fx_rewrites.edit import (
    CHECKS,
    Builder,
    argument,
    aten,
    each,
    has_dynamic_size,
    is_symbolic,
    operands,
    replace,
    settle,
    value,
)

Layout = tuple[fx.Node | int, ...]
"""Which positions of a dimension are there: by masks, and runs of positions that all are."""


class _NotTaken(Exception):
    """A use of a masked dimension that has no form at full length."""


def at_full_length(program: ExportedProgram) -> bool:
    """`x[mask]` keeps its full length; scatters send what the mask drops to a separate row.

    PyTorch/XLA 2.9 captures no shape that depends on values ("aten::nonzero"). torch-mlir
    20261001 fails on it ("failed to legalize operation 'torch.runtime.assert'", StableHLO) or
    crashes (SIGSEGV, linalg), and IREE 3.13 does not compile the torch dialect of it. PyTorch Geometric's GCN, GAT and GATv2 remove self-loops in this way.

    The masked dimension is followed through the operators of _Follower to the reductions that
    end it: scatters into one more row, which is cut off again, and sums of zeros. A graph
    that uses it in any other way is left as it is. Sums have the same order.
    """
    if any(
        map(has_dynamic_size, program.graph.nodes)
    ):  # a size that is not a number is not a mask's
        return False
    follower = _Follower(program)
    try:
        follower.follow()
    except _NotTaken:
        return False
    if not follower.masked:
        return False
    for node, layout in follower.ends.items():
        _end(node, layout)
    for node, source in follower.masked.items():
        replace(node, source)
    settle(program)
    return True


@each(aten.scaled_dot_product_attention.default)
def masked_rows_as_zeros(node: fx.Node) -> fx.Node | None:
    """A row of attention whose boolean mask leaves it no key is 0, as in PyTorch since 2.5; PyTorch/XLA 2.9 makes NaN of it.

    Such a row attends to all keys here, and is multiplied by 0. Which rows have a key is kept as numbers, because IREE 3.13 does not compile
    rows of booleans that two dispatches read ("'iree_codegen.load_from_buffer' op buffer and tensor shapes must be compatible").

    Only of masks that depend on an input: others are the same in every call.
    """
    mask = argument(node, "attn_mask")
    if not isinstance(mask, fx.Node) or value(mask).dtype is not torch.bool:
        return None
    if not _depends_on_input(mask):
        return None
    build = Builder(node)
    has_key = build(aten.amax.default, build.cast(mask, value(node).dtype), [-1], True)
    filled = build(aten.logical_or.default, mask, build(aten.eq.Scalar, has_key, 0))
    arguments = [filled if known is mask else known for known in node.args]
    named = {name: filled if known is mask else known for name, known in node.kwargs.items()}
    return build(aten.mul.Tensor, build(node.target, *arguments, **named), has_key)


def _depends_on_input(node: fx.Node) -> bool:
    """Whether an argument of the program is among what a node is computed from."""
    seen, todo = set[fx.Node](), [node]
    while todo:
        current = todo.pop()
        if current.op == "placeholder":
            return True
        todo += [source for source in current.all_input_nodes if source not in seen]
        seen.update(todo)
    return False


_FILLED = (
    *(aten.full.default, aten.ones.default, aten.zeros.default, aten.new_ones.default),
    *(aten.new_zeros.default, aten.new_full.default, aten.empty.memory_format),
)
_SIZED: dict[Any, tuple[str, ...]] = dict.fromkeys(
    (*_FILLED, aten.view.default, aten.expand.default), ("size",)
)
_SIZED[aten.empty_strided.default] = ("size", "stride")
"""Operators that may be told a size that depends on data, and as which arguments."""
_LIKE = (aten.full_like.default, aten.ones_like.default, aten.zeros_like.default)
_UNIFORM = (*_FILLED, *_LIKE, aten.empty_strided.default)
"""Operators whose result is the same all along a dimension, whatever is masked."""
_SAME_ROWS = (
    *(aten.clone.default, aten.alias.default, aten.detach.default, aten._to_copy.default),
    *(aten.unsqueeze.default, aten.permute.default, aten.mm.default, aten.addmm.default),
    *(aten.linear.default, aten.leaky_relu.default, aten.elu.default, aten.softplus.default),
    *(aten.squeeze.dim, aten.squeeze.dims, torch.ops.prims.squeeze.default),
)
"""Operators that take a masked dimension, if their result has it, row by row."""
_ALONG = (
    *(aten.select.int, aten.slice.Tensor, aten.amax.default, aten.amin.default),
    *(aten.mean.dim, aten._softmax.default),
)
"""Operators on other dimensions than the masked one."""
_SCATTERS = (aten.scatter_add.default, aten.scatter_reduce.two, aten.scatter.src)
_ON_SIZES = (
    *(operator.add, operator.sub, operator.mul, operator.ge, operator.le),
    *(operator.gt, operator.lt, operator.eq, operator.ne, aten.sym_size.int, *CHECKS),
)


class _Follower:
    """Follows masked dimensions through a graph.

    `masked` has the indexing nodes with what they index, `ends` the reductions with the layout
    of the dimension that they reduce. A tensor has at most one masked dimension, the one whose
    size is not a number.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.masked: dict[fx.Node, fx.Node] = {}
        self.ends: dict[fx.Node, Layout] = {}
        self.layouts: dict[fx.Node, Layout | None] = {}

    def follow(self) -> None:
        """Fill `masked` and `ends`; raises _NotTaken."""
        for node in self.program.graph.nodes:
            if node.op == "output" and any(n in self.layouts for n in node.all_input_nodes):
                raise _NotTaken(node)
            if node.op != "call_function":
                continue
            _check_sizes(node)
            result = node.meta.get("val")
            if isinstance(result, torch.Tensor):
                has = any(is_symbolic(size) for size in result.shape)
                if has or any(n in self.layouts for n in operands(node)):
                    self._follow_call(node, has)
            elif node.target not in _ON_SIZES and any(n in self.layouts for n in operands(node)):
                raise _NotTaken(node)

    def _follow_call(self, node: fx.Node, has: bool) -> None:
        if not has:
            if node.target not in _UNIFORM:
                self.ends[node] = self._end(node)
            return
        _dimension(node)
        layout = self._layout(node)
        if layout is not None and not layout:
            raise _NotTaken(node)
        self.layouts[node] = layout

    def _layout(self, node: fx.Node) -> Layout | None:
        """The layout of a call's result, None if it is the same all along the dimension."""
        target, inputs = node.target, [n for n in operands(node) if n in self.layouts]
        if target is aten.index.Tensor:
            return self._index(node)
        if target is aten.index_select.default:
            return self._taken(node.args[0], node.args[2])
        if target in _UNIFORM:
            return None
        if target is aten.cat.default:
            return self._cat(node)
        if target is aten.expand.default:
            return self.layouts.get(node.args[0])
        if not inputs:
            raise _NotTaken(node)
        if target is aten.view.default:
            _check_view(node)
        elif target in _ALONG or target is aten.sum.dim_IntList:
            dims = node.args[1] if len(node.args) > 1 else None
            rank = value(inputs[0]).dim()
            dims = dims if isinstance(dims, list | tuple) else [dims]
            if not dims or None in dims or _dimension(inputs[0]) in {d % rank for d in dims}:
                raise _NotTaken(node)
        elif target not in _SAME_ROWS and torch.Tag.pointwise not in getattr(target, "tags", ()):
            raise _NotTaken(node)
        return self._one(node, inputs)

    def _one(self, node: fx.Node, inputs: list[fx.Node]) -> Layout | None:
        """The layout that masked inputs have in common; a uniform one goes with any."""
        layouts = {layout for n in inputs if (layout := self.layouts[n]) is not None}
        if len(layouts) > 1:
            raise _NotTaken(node)
        return layouts.pop() if layouts else None

    def _index(self, node: fx.Node) -> Layout | None:
        """Of `x[mask]`, where masked dimensions begin, or of `x[indices]`."""
        source, given = node.args[:2]
        chosen = [(dim, index) for dim, index in enumerate(given) if index is not None]
        if len(chosen) != 1:
            raise _NotTaken(node)
        dim, index = chosen[0]
        if value(index).dtype is not torch.bool:
            return self._taken(source, index)
        masked = source in self.layouts or index in self.layouts
        if masked or value(index).dim() != 1 or is_symbolic(value(source).shape[dim]):
            raise _NotTaken(node)
        self.masked[node] = source
        return (index,)

    def _taken(self, source: fx.Node, index: fx.Node) -> Layout | None:
        """Of rows that `index` takes of `source`: the dimension is the index's."""
        if source in self.layouts or index not in self.layouts or value(index).dim() != 1:
            raise _NotTaken(index)
        return self.layouts[index]

    def _cat(self, node: fx.Node) -> Layout | None:
        dim = (node.args[1] if len(node.args) > 1 else 0) % value(node).dim()
        if dim != _dimension(node):
            return self._one(node, [n for n in node.args[0] if n in self.layouts])
        segments: list[fx.Node | int] = []
        for part in node.args[0]:
            if part in self.layouts:
                layout = self.layouts[part]
                if layout is None or _dimension(part) != dim:
                    raise _NotTaken(node)
                segments += layout
            else:
                segments.append(value(part).shape[dim])
        return tuple(segments)

    def _end(self, node: fx.Node) -> Layout:
        """The layout of the dimension that a reduction ends."""
        target = node.target
        if target in _SCATTERS:
            base, dim, *parts = node.args[:4]
            dim %= max(value(base).dim(), 1)
        elif target is aten.index_put.default:
            base, (*before, index), update = node.args[:3]
            if any(other is not None for other in before):
                raise _NotTaken(node)
            dim, parts = len(before), [index, update]
            if value(update).dim() != value(base).dim() or value(index).dim() != 1:
                raise _NotTaken(node)
        elif target is aten.sum.dim_IntList:
            base, parts = None, [node.args[0]]
            dim = _dimension(parts[0])
        else:
            raise _NotTaken(node)
        if base is not None and (base in self.layouts or not value(base).shape[dim]):
            raise _NotTaken(node)
        for part in parts:
            along = 0 if value(part).dim() == 1 else dim
            if part not in self.layouts or _dimension(part) != along:
                raise _NotTaken(node)
        layout = self._one(node, parts)
        if layout is None:
            raise _NotTaken(node)
        return layout


def _check_sizes(node: fx.Node) -> None:
    """A size that depends on data may be nothing but a size: never a count to divide by."""
    sizes = {n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.SymInt)}
    if not sizes or node.target in _ON_SIZES:
        return
    if node.target not in _SIZED:
        raise _NotTaken(node)
    allowed: set[fx.Node] = set()
    fx.map_arg([argument(node, name) for name in _SIZED[node.target]], allowed.add)
    others = [
        argument(node, declared.name)
        for declared in node.target._schema.arguments
        if declared.name not in _SIZED[node.target]
    ]
    if sizes & {other for other in others if isinstance(other, fx.Node)}:
        raise _NotTaken(node)


def _dimension(node: fx.Node) -> int:
    """The one dimension whose size is not a number."""
    symbolic = [dim for dim, size in enumerate(value(node).shape) if is_symbolic(size)]
    if len(symbolic) != 1:
        raise _NotTaken(node)
    return symbolic[0]


def _check_view(node: fx.Node) -> None:
    """A view may regroup what is before the masked dimension and after it, but not it."""
    source, result = value(node.args[0]).shape, value(node).shape
    old, new = _dimension(node.args[0]), _dimension(node)
    same = source[old].node.expr == result[new].node.expr
    if not same or math.prod(source[:old]) != math.prod(result[:new]):
        raise _NotTaken(node)


def _end(node: fx.Node, layout: Layout) -> None:
    """Take what the masks drop out of a reduction."""
    build = Builder(node, typed=False)
    if node.target is aten.sum.dim_IntList:
        source = node.args[0]
        valid = _valid(build, layout, value(source).dim(), _dimension(source))
        node.replace_input_with(source, build.where(valid, source, 0))
        return
    if node.target is aten.index_put.default:
        base, indices = node.args[:2]
        index, dim = indices[-1], len(indices) - 1
    else:
        base, dim, index = node.args[:3]
        dim %= value(base).dim()
    rows = value(base).shape[dim]
    first = build(aten.slice.Tensor, base, dim, 0, 1)
    extended = build(aten.cat.default, [base, first], dim)
    valid = _valid(build, layout, value(index).dim(), _dimension(index))
    index = build.where(valid, index, rows)
    if node.target is aten.index_put.default:
        node.args = (extended, [*indices[:-1], index], *node.args[2:])
    else:
        node.args = (extended, dim, index, *node.args[3:])
    with node.graph.inserting_after(node):
        cut = node.graph.call_function(aten.slice.Tensor, (node, dim, 0, rows))
    node.replace_all_uses_with(cut, delete_user_cb=lambda user: user is not cut)


def _valid(build: Builder, layout: Layout, rank: int, dim: int) -> fx.Node:
    """True where a position is there, in a shape that broadcasts against `rank` dimensions."""
    parts = [
        build.full([part], True, torch.bool) if isinstance(part, int) else part for part in layout
    ]
    valid = build(aten.cat.default, parts, 0) if len(parts) > 1 else parts[0]
    return build(aten.view.default, valid, [-1 if d == dim else 1 for d in range(rank)])
