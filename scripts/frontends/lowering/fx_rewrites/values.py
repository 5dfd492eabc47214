"""Operators whose values are computed wrongly behind a lowering path, or that it refuses, in forms that it computes rightly.

`vmfbench fuzz` has found them, and workflow/known_failures.yaml names the causes (torch-mlir 20261001, IREE 3.13). Values are those of
eager, but for the rounding of asinh, sinh, atanh, logcumsumexp and log10, the sign of a zero, and the order of sums into a tensor itself.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Container, Iterable
from typing import Any

import numpy as np
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
    operands,
    replace,
    value,
)
from scripts.frontends.lowering.fx_rewrites.operators import KnownValues


def without_elements(program: ExportedProgram) -> bool:
    """A tensor without elements is a constant.

    torch-mlir 20261001 divides by its sizes where it is viewed (SIGFPE).
    """
    changed = False
    for node in list(program.graph.nodes):
        result = node.meta.get("val")
        if node.op != "call_function" or not isinstance(result, torch.Tensor):
            continue
        if node.target is aten.full.default or not is_static(node) or result.numel():
            continue
        replace(node, Builder(node).full(list(result.shape), 0, result.dtype))
        changed = True
    return changed


@each(aten.sum.default, aten.sum.dim_IntList, aten.amin.default, aten.amax.default, with_open=True)
def sum_over_dimensions(node: fx.Node) -> fx.Node | None:
    """A sum of all elements, or the least or largest of them, names the dimensions: PyTorch/XLA 2.9 goes over none if none is named."""
    tensor = argument(node, "self")
    dims = list(range(value(tensor).dim()))
    if not dims or (node.target is not aten.sum.default and argument(node, "dim")):
        return None
    target = aten.sum.dim_IntList if node.target is aten.sum.default else node.target
    return Builder(node)(target, tensor, dims, *node.args[2:], **node.kwargs)


@each(aten.dot.default, with_open=True)
def dot_as_sum(node: fx.Node) -> fx.Node:
    """The product of two vectors is the sum of the products of their values: PyTorch/XLA 2.9 leaves out the sum."""
    call = Builder(node)
    products = call(aten.mul.Tensor, *node.args)
    return call(aten.sum.dim_IntList, products, [0], dtype=value(node).dtype)


_SAME = (aten.alias.default, aten.detach.default, aten.clone.default)
_RESHAPED = (*_SAME, aten.view.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims)


@each(aten.eq.Tensor, aten.isfinite.default, with_open=True)
def equal_to_itself(node: fx.Node) -> fx.Node | None:
    """`x == x` is that x is not NaN: torch-mlir 20261001 makes True of it. `isfinite` is that |x| is below infinity: torch-mlir has it
    for StableHLO alone."""
    call, number = Builder(node), node.args[0]
    if not value(number).is_floating_point():
        return None
    if node.target is aten.isfinite.default:
        return call(aten.lt.Scalar, call(aten.abs.default, number), math.inf)
    if _source(number) is not _source(node.args[1]):
        return None
    return call(aten.logical_not.default, call(aten.ne.Tensor, number, number))


def _source(node: fx.Node, through: Container[Any] = _SAME) -> fx.Node:
    """What a node is a copy of; what operators of `through` have made it of."""
    while node.target in through:
        node = node.args[0]
    return node


@each(aten.clamp.default, with_open=True)
def clamp_by_one_limit(node: fx.Node) -> fx.Node | None:
    """`clamp` with one limit is `maximum` or `minimum`: PyTorch/XLA 2.9 takes the largest finite number for the other, and infinity becomes that."""
    least, most = argument(node, "min"), argument(node, "max")
    limit = most if least is None else least
    is_open = least is None or most is None
    if not (is_open and isinstance(limit, int | float) and value(node).is_floating_point()):
        return None
    call = Builder(node)
    target = aten.minimum.default if least is None else aten.maximum.default
    return call(target, node.args[0], call.full([], limit, value(node).dtype))


_COMPARISONS = (
    *(aten.lt.Scalar, aten.le.Scalar, aten.gt.Scalar, aten.ge.Scalar, aten.eq.Scalar),
    aten.ne.Scalar,
)
_FILLED = (aten.full_like.default, aten.ones_like.default, aten.zeros_like.default)


def constants_compared_as_floats(program: ExportedProgram) -> bool:
    """Floats that are known before the program runs are compared with floats: torch-mlir 20261001 folds `torch.ones(2) == 1` to False."""
    known, changed = KnownValues(program), False
    for node in calls(program, *_COMPARISONS, with_open=True):
        tensor, number = node.args
        is_known = tensor.target in _FILLED or known(tensor) is not None
        if isinstance(number, int) and value(tensor).is_floating_point() and is_known:
            node.update_arg(1, float(number))
            changed = True
    return changed


_LIMITS = (aten.clamp.default, aten.clamp.Tensor, aten.hardtanh.default)


def limits_keep_nan(program: ExportedProgram) -> bool:
    """The larger, or smaller, of two values is NaN if either is.

    torch-mlir 20261001 compares and selects: `maximum(a, b)` is b if a is NaN, and `clamp` gives the limit for NaN. So what cannot be NaN,
    as a limit, comes first here, which costs nothing; where both may be NaN, the first is tested.
    """
    known, changed = KnownValues(program), False
    for node in calls(program, aten.maximum.default, aten.minimum.default, *_LIMITS, with_open=True):  # fmt: skip
        if (new := _keeps_nan(known, node)) is not None:
            replace(node, new)
            changed = True
    return changed


def _keeps_nan(known: KnownValues, node: fx.Node) -> fx.Node | None:
    """A call of maximum, minimum, clamp or hardtanh in a form that keeps NaN; None if it does so as it is."""
    dtype = value(node).dtype
    first = node.args[0]
    if not dtype.is_floating_point:
        return None
    call = Builder(node)
    if node.target not in _LIMITS:
        second = node.args[1]
        return None if _is_number(known, first) else _of_two(known, call, node.target, first, second)  # fmt: skip
    names = ("min_val", "max_val") if node.target is aten.hardtanh.default else ("min", "max")
    limits = [argument(node, name) for name in names]
    if any(isinstance(n, fx.Node) and not isinstance(value(n), torch.Tensor) for n in limits):
        return None  # a size that is open
    for limit, target in zip(limits, (aten.maximum.default, aten.minimum.default), strict=True):
        if isinstance(limit, int | float):
            limit = call.full([], limit, dtype)
        if limit is not None:
            first = _of_two(known, call, target, first, limit)
    return first


def _of_two(known: KnownValues, call: Builder, target, first: fx.Node, second: fx.Node) -> fx.Node:
    """`target` of two tensors, of which the first may be NaN."""
    if _is_number(known, second):
        return call(target, second, first)
    is_nan = call(aten.ne.Tensor, first, first)
    return call(aten.where.self, is_nan, first, call(target, first, second))


def _is_number(known: KnownValues, node: fx.Node) -> bool:
    """Whether no element of a tensor is NaN, whatever the inputs are."""
    if not value(node).is_floating_point():
        return True
    if node.target is aten.full.default:
        return isinstance(node.args[1], int | float) and not math.isnan(node.args[1])
    constant = known(node)
    return constant is not None and not bool(constant.isnan().any())


_SUMS = (
    *(aten.add.Tensor, aten.add.Scalar, aten.scatter_add.default, aten.index_add.default),
    aten.index_put.default,
)
_PRODUCTS = (
    *(aten.mm.default, aten.bmm.default, aten.addmm.default, aten.mv.default, aten.dot.default),
)


@each(*_SUMS, with_open=True)
def sums_of_booleans_in_int32(node: fx.Node) -> fx.Node | None:
    """A sum of booleans is whether one of them is True: they are added as int32.

    torch-mlir 20261001 adds them in one bit, where True and True is False.
    """
    adds = node.target is not aten.index_put.default or argument(node, "accumulate")
    return _in_type(node, torch.int32) if value(node).dtype is torch.bool and adds else None


@each(*_PRODUCTS, with_open=True)
def products_of_8_bits_in_int32(node: fx.Node) -> fx.Node | None:
    """A product of matrices of 8 bits is computed in int32 and cut to 8 bits, which is the same.

    torch-mlir 20261001 refuses it, and crashes (SIGSEGV).
    """
    narrow = value(node).dtype in (torch.int8, torch.uint8)
    return _in_type(node, torch.int32) if narrow else None


@each(aten.mm.default, aten.linear.default, aten.addmm.default)
def product_of_one_row(node: fx.Node) -> fx.Node | None:
    """The product of a row, or by a column, that is repeated is that of the row or column, repeated. The data tiling of IREE 3.13 crashes (SIGSEGV)."""
    adds = node.target is aten.addmm.default
    bias = value(argument(node, "self")) if adds else None
    if bias is not None and bias.dim() > 1 and bias.shape[0] != 1:
        return None
    for number, summed in ((int(adds), -1), *[(1, -2)] * (node.target is aten.mm.default)):
        repeated = _source(node.args[number])
        if repeated.target is not aten.expand.default or not is_static(repeated):
            continue
        shape, own = list(value(repeated).shape), list(value(repeated.args[0]).shape)
        own = [1] * (len(shape) - len(own)) + own
        own[summed] = shape[summed]
        if own == shape:
            continue
        call, args = Builder(node), list(node.args)
        args[number] = call(aten.expand.default, repeated.args[0], own)
        product = call(node.target, *args, **node.kwargs)
        return call(aten.expand.default, product, list(value(node).shape))
    return None


_BITS = (aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor)


@each(*_BITS, with_open=True)
def bits_of_one_type(node: fx.Node) -> fx.Node | None:
    """Bits of 8-bit integers are combined with those of booleans as integers. torch-mlir 20261001 crashes (SIGSEGV) where it converts them."""
    dtype = value(node).dtype
    if dtype.itemsize > 1 or all(value(operand).dtype is dtype for operand in operands(node)):
        return None
    call = Builder(node)
    return call(node.target, *_of_type(call, node.args, dtype))


_OF_NARROW = {
    aten.bitwise_right_shift.Tensor: torch.uint8,
    **dict.fromkeys((aten.amin.default, aten.amax.default, aten.min.dim, aten.max.dim), torch.bool),
}
"""Operators of one type that torch-mlir 20261001 lowers to StableHLO with signs: a shift of uint8 repeats the highest bit, and the least
of booleans is False, the largest True."""


@each(*_OF_NARROW, with_open=True)
def shifts_and_extremes_in_int32(node: fx.Node) -> fx.Node | dict[int, fx.Node] | None:
    """A shift of bytes to the right, and the least and largest of booleans, are computed in int32."""
    tensor = argument(node, "self")
    return _in_type(node, torch.int32) if value(tensor).dtype is _OF_NARROW[node.target] else None


def _in_type(node: fx.Node, dtype: torch.dtype) -> Any:
    """A call that takes its tensors of the result's type in another type. The result has its own again; indices keep theirs."""
    call, results = Builder(node), value(node)
    several = isinstance(results, tuple | list)
    own = (results[0] if several else results).dtype

    def wider(given: Any) -> Any:
        is_narrow = isinstance(given, fx.Node) and value(given).dtype is own
        return call.cast(given, dtype) if is_narrow else given

    new = call(node.target, *map(wider, node.args), **node.kwargs)
    if not several:
        return call.cast(new, own)
    first, second = (call(operator.getitem, new, number) for number in range(2))
    return {0: call.cast(first, own), 1: second}


_WITHOUT_SIGN = (
    *(aten.clone.default, aten.bitwise_not.default, aten.bitwise_and.Tensor, aten.logical_not.default),
    *(aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor, aten.maximum.default, aten.minimum.default),
)  # fmt: skip
"""Operators of uint8 alone that torch-mlir lowers rightly, beside comparisons."""
_CONVERSIONS = (aten._to_copy.default, torch.ops.prims.convert_element_type.default)
_OF_SEVERAL = (
    *(aten.sum.default, aten.sum.dim_IntList, aten.prod.default, aten.prod.dim_int, aten.cat.default),
    *(aten.sort.default, aten.topk.default, aten.max.default, aten.min.default),
)  # fmt: skip


def unsigned_bytes_in_wider_type(program: ExportedProgram) -> bool:
    """Tensors of uint8 are converted to the type of a result before it is computed, or to int32 if that is uint8; floats become uint8
    by way of int32.

    Inside an operator, torch-mlir 20261001 takes 128 to 255 as negative (torch dialect, linalg). It converts a tensor of uint8 by itself rightly.
    """
    changed = False
    for node in list(program.graph.nodes):
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            changed |= _widen(node)
    return changed


def _widen(node: fx.Node) -> bool:
    """Let a call compute with uint8 in a wider type, if that is needed; return whether it is."""
    kinds = [value(operand).dtype for operand in operands(node)]
    results = node.meta.get("val")
    several = isinstance(results, tuple | list) and bool(results)
    result = getattr(results[0] if several else results, "dtype", None)
    call = Builder(node)
    if node.target in _CONVERSIONS:
        if result is not torch.uint8 or not kinds[0].is_floating_point:
            return False
        replace(node, call.cast(call.cast(node.args[0], torch.int32), torch.uint8))
        return True
    is_pointwise = torch.Tag.pointwise in node.target.tags
    if torch.uint8 not in kinds or not (is_pointwise or node.target in _OF_SEVERAL):
        return False
    alone = set(kinds) == {torch.uint8}
    if alone and (node.target in _WITHOUT_SIGN or (is_pointwise and result is torch.bool)):
        return False
    wide = result
    if result in (torch.uint8, torch.bool):
        wide = functools.reduce(torch.promote_types, kinds, torch.int32)
    condition = node.args[0] if node.target is aten.where.self else None
    narrow = [n for n in operands(node) if value(n).dtype is torch.uint8 and n is not condition]
    casts = {n: call.cast(n, wide) for n in narrow}
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: casts.get(n, n))
    new = call(node.target, *args, **kwargs)
    if not several:
        replace(node, new if value(new).dtype is result else call.cast(new, result))
        return True
    first = call.cast(call(operator.getitem, new, 0), result)
    for user in list(node.users):
        replace(user, call(operator.getitem, new, user.args[1]) if user.args[1] else first)
    node.graph.erase_node(node)
    return True


@each(aten.asinh.default, with_open=True)
def asinh_of_size(node: fx.Node) -> fx.Node:
    """asinh(x) is asinh(|x|) with the sign of x: log1p(a + a² / (1 + sqrt(a² + 1))) of a = |x|, and log(a) + log(2) where a² overflows.

    torch-mlir 20261001 computes log(x + sqrt(x² + 1)), which cancels for negative x and overflows for large ones.
    """
    call, dtype = Builder(node), value(node).dtype
    x = call.cast(node.args[0], torch.float32) if dtype not in WIDE else node.args[0]
    if not value(x).is_floating_point():
        x = call.cast(x, dtype)
    size = call(aten.abs.default, x)
    square = call(aten.mul.Tensor, size, size)
    root = call(aten.sqrt.default, call(aten.add.Scalar, square, 1.0))
    rest = call(aten.div.Tensor, square, call(aten.add.Scalar, root, 1.0))
    near = call(aten.log1p.default, call(aten.add.Tensor, size, rest))
    far = call(aten.add.Scalar, call(aten.log.default, size), math.log(2))
    result = call(aten.where.self, call(aten.gt.Scalar, size, 1e9), far, near)
    negative = call(aten.neg.default, result)
    result = call(aten.where.self, call(aten.lt.Scalar, x, 0.0), negative, result)
    return result if value(result).dtype is dtype else call.cast(result, dtype)


@each(aten.sinh.default, aten.atanh.default, with_open=True)
def hyperbolic_near_zero(node: fx.Node) -> fx.Node:
    """sinh by expm1, and atanh by log1p. torch-mlir 20261001 subtracts exponentials, and logarithms, that are nearly equal near 0."""
    call, dtype = Builder(node), value(node).dtype
    wide = dtype if dtype in WIDE else torch.float32
    (x,) = _of_type(call, node.args, wide)
    size = call(aten.abs.default, x)
    if node.target is aten.sinh.default:
        power = call(aten.expm1.default, size)
        rest = call(aten.div.Tensor, power, call(aten.add.Scalar, power, 1.0))
        near = call(aten.mul.Scalar, call(aten.add.Tensor, power, rest), 0.5)
        root = call(aten.exp.default, call(aten.mul.Scalar, size, 0.5))
        far = call(aten.mul.Tensor, call(aten.mul.Scalar, root, 0.5), root)
        result = call(aten.where.self, call(aten.gt.Scalar, size, 20.0), far, near)
    else:
        ratio = call(aten.div.Tensor, call(aten.mul.Scalar, size, 2.0), call(aten.rsub.Scalar, size, 1.0))  # fmt: skip
        result = call(aten.mul.Scalar, call(aten.log1p.default, ratio), 0.5)
    negative = call(aten.neg.default, result)
    result = call(aten.where.self, call(aten.lt.Scalar, x, 0.0), negative, result)
    return result if wide is dtype else call.cast(result, dtype)


@each(aten.logcumsumexp.default)
def logcumsumexp_by_doubling(node: fx.Node) -> fx.Node | None:
    """A scan by log(exp(a) + exp(b)): after the n-th of log2(size) steps, each value has the 2ⁿ before it. The sums have another order.

    torch-mlir 20261001 sums exponentials, which underflow below -104 and overflow above 88; PyTorch/XLA 2.9 does not capture the operator.
    """
    call, total = Builder(node), argument(node, "self")
    kind = value(total)
    if not kind.dim() or kind.dtype not in WIDE:
        return None
    dim = argument(node, "dim") % kind.dim()
    size, step = kind.shape[dim], 1
    while step < size:
        first = call(aten.slice.Tensor, total, dim, 0, step)
        before = call(aten.slice.Tensor, total, dim, 0, size - step)
        after = call(aten.slice.Tensor, total, dim, step, size)
        total = call(aten.cat.default, [first, _log_of_sum(call, before, after)], dim)
        step *= 2
    return total


def _log_of_sum(call: Builder, a: fx.Node, b: fx.Node) -> fx.Node:
    """log(exp(a) + exp(b)), also where both are the same infinity; NaN where one is."""
    is_larger = call(aten.gt.Tensor, a, b)
    larger, smaller = (call(aten.where.self, is_larger, *pair) for pair in ((a, b), (b, a)))
    ratio = call(aten.exp.default, call(aten.sub.Tensor, smaller, larger))
    both = call(aten.add.Tensor, larger, call(aten.log1p.default, ratio))
    doubled = call(aten.add.Scalar, a, math.log(2))
    return call(aten.where.self, call(aten.eq.Tensor, a, b), doubled, both)


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


@each(aten.index_put.default, aten.scatter_add.default, with_open=True)
def sum_into_itself_apart(node: fx.Node) -> fx.Node | None:
    """Values of a tensor that are added to itself, at other positions, are added to zeros first, and the tensor is added to that. Where
    several have one position, the sum has another order.

    IREE 3.13 reads and writes the same buffer in one dispatch: it adds values that it has changed, or crashes (SIGSEGV).
    """
    is_put = node.target is aten.index_put.default
    target, source = argument(node, "self"), argument(node, "values" if is_put else "src")
    first, second = (_source(tensor, _RESHAPED) for tensor in (target, source))
    if first is not second or (is_put and not argument(node, "accumulate")):
        return None
    call = Builder(node)
    sums = call(node.target, call(aten.zeros_like.default, target), *node.args[1:], **node.kwargs)
    return call(aten.add.Tensor, target, sums)


_UPDATES = (
    *(aten.slice_scatter.default, aten.index_put.default, aten.scatter_add.default),
    *(aten.scatter.src, aten.scatter_reduce.two),
)


@each(*_UPDATES, with_open=True)
def update_of_copy(node: fx.Node) -> fx.Node | None:
    """Floats that are a result beside their update are copied before it, by a choice that IREE does not fold.

    IREE 3.13 writes the update over them.
    """
    target = argument(node, "self")
    if not value(target).is_floating_point() or not _is_result(_source(target, _RESHAPED)):
        return None
    call = Builder(node)
    nan = call.full([], math.nan, value(target).dtype)
    copy = call(aten.where.self, call(aten.ne.Tensor, target, target), nan, target)
    return call(node.target, copy, *node.args[1:], **node.kwargs)


def _is_result(node: fx.Node) -> bool:
    """Whether a tensor is a result of the program, as it is or in another shape."""
    return any(n.op == "output" or (n.target in _RESHAPED and _is_result(n)) for n in node.users)


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
    fuses = torch.Tag.pointwise in target.tags or target.is_view or target in _SAME
    return fuses and any(_is_computed_with(operand, other) for operand in operands(node))


@each(aten.rms_norm.default, with_open=True)
def rms_norm_in_float32(node: fx.Node) -> fx.Node | None:
    """The squares of narrow numbers are added in float32, as eager does. torch-mlir 20261001 adds them in their own type, where they become infinite."""
    narrow = value(node).dtype in (torch.float16, torch.bfloat16)
    return _in_type(node, torch.float32) if narrow else None


@each(aten.rms_norm.default, with_open=True)
def rms_norm_with_epsilon(node: fx.Node) -> fx.Node | None:
    """The epsilon of rms_norm is that of the type, if none is given. torch-mlir 20261001 takes 0."""
    if argument(node, "eps") is not None:
        return None
    given = [argument(node, name) for name in ("input", "normalized_shape", "weight")]
    return Builder(node)(node.target, *given, torch.finfo(value(node).dtype).eps)


_ADDING = (
    *(aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim),
    *(aten.cumsum.default, aten.linalg_vector_norm.default),
)


@each(*_ADDING, with_open=True)
def sums_of_16_bits_in_float32(node: fx.Node) -> fx.Node | None:
    """Sums, means and norms of f16 and bf16 are computed in float32 and rounded once, as eager does. IREE 3.13 rounds after each addition."""
    dtype = value(node).dtype
    if dtype not in (torch.float16, torch.bfloat16) or value(argument(node, "self")).dtype is not dtype:  # fmt: skip
        return None
    call = Builder(node)
    given = {name: given for name, given in node.kwargs.items() if name != "dtype"}
    wide = call.cast(argument(node, "self"), torch.float32)
    return call.cast(call(node.target, wide, *node.args[1:], **given), dtype)


@each(aten.roll.default)
def roll_within_size(node: fx.Node) -> fx.Node | None:
    """A roll is by less than the size of a dimension, and names its dimensions.

    torch-mlir 20261001 makes slices of it, which are wrong where it goes round more than once. It refuses a roll by nothing, or without dimensions.
    """
    tensor, shifts, dims = (argument(node, name) for name in ("self", "shifts", "dims"))
    call, shape = Builder(node), list(value(tensor).shape)
    if not dims:
        flat = call(aten.view.default, tensor, [-1])
        return call(aten.view.default, call(node.target, flat, [shifts[0] % max(1, math.prod(shape))], [0]), shape)  # fmt: skip
    moves = [(shift % max(1, shape[dim]), dim) for shift, dim in zip(shifts, dims, strict=True)]
    within = [shift for shift, _ in moves if shift]
    if within == list(shifts):
        return None
    if not within:
        return call(aten.clone.default, tensor)
    return call(node.target, tensor, within, [dim for shift, dim in moves if shift])


@each(aten.upsample_nearest2d.default)
def upsample_nearest_by_index(node: fx.Node) -> fx.Node | None:
    """Images of another size are taken at the positions that PyTorch computes in float32.

    torch-mlir 20261001 divides the sizes as integers: images become smaller as their first pixels, and larger by whole factors alone.
    """
    call, result = Builder(node), argument(node, "self")
    sizes = list(zip(value(result).shape[2:], value(node).shape[2:], strict=True))
    if all(after % before == 0 for before, after in sizes):
        return None
    factors = argument(node, "scales_h"), argument(node, "scales_w")
    for dim, ((before, after), factor) in enumerate(zip(sizes, factors, strict=True), 2):
        step = np.float32(1 / factor) if factor else np.float32(before) / np.float32(after)
        positions = call(aten.mul.Scalar, call.cast(call.arange(0, after, 1), torch.float32), float(step))  # fmt: skip
        index = call.cast(call(aten.floor.default, positions), torch.int64)
        index = call(aten.clamp.default, index, 0, before - 1)
        result = call(aten.index_select.default, result, dim, index)
    return result


@each(aten.pow.Tensor_Scalar, with_open=True)
def pow_of_booleans(node: fx.Node) -> fx.Node | None:
    """A power of booleans is the booleans, or 1 for an exponent of 0. torch-mlir 20261001 makes int64 of it, or refuses it, as PyTorch/XLA 2.9 does."""
    base, exponent = node.args
    if value(base).dtype is not torch.bool or not isinstance(exponent, int):
        return None
    call, dtype = Builder(node), torch.bool if isinstance(exponent, bool) else value(node).dtype
    return call.cast(base, dtype) if exponent else call(aten.ones_like.default, base, dtype=dtype)


@each(aten.pow.Tensor_Tensor, aten.pow.Scalar, with_open=True)
def pow_of_size(node: fx.Node) -> fx.Node | None:
    """`|x| ** y` in place of `x ** y`, negated where x is negative and y odd.

    torch-mlir 20261001 computes exp(y * log(x)), which is NaN for each base below 0, and for 0 to the power of 0.
    """
    call, dtype = Builder(node), value(node).dtype
    base, exponent = node.args
    if not isinstance(base, fx.Node):
        if not isinstance(base, int | float) or base >= 0:
            return None
        base = call.full([], base, dtype)
    if not dtype.is_floating_point:
        return None
    base, exponent = call.cast(base, dtype), call.cast(exponent, dtype)
    magnitude = call(aten.abs.default, base)
    power = call(aten.pow.Tensor_Tensor, magnitude, exponent)
    is_one = call(aten.logical_or.default, call(aten.eq.Scalar, exponent, 0.0), call(aten.eq.Scalar, magnitude, 1.0))  # fmt: skip
    power = call(aten.where.self, is_one, call.full([], 1.0, dtype), power)
    is_whole, is_half_whole = (call(aten.eq.Tensor, n, call(aten.floor.default, n)) for n in (exponent, call(aten.mul.Scalar, exponent, 0.5)))  # fmt: skip
    is_odd = call(aten.logical_and.default, is_whole, call(aten.logical_not.default, is_half_whole))
    signed = call(aten.where.self, is_odd, call(aten.neg.default, power), power)
    is_number = call(aten.logical_or.default, is_whole, call(aten.eq.Scalar, magnitude, math.inf))
    signed = call(aten.where.self, is_number, signed, call.full([], math.nan, dtype))
    return call(aten.where.self, call(aten.lt.Scalar, base, 0.0), signed, power)


@each(aten.pow.Tensor_Scalar, with_open=True)
def negative_pow_as_reciprocal(node: fx.Node) -> fx.Node | None:
    """A power with a negative exponent is the reciprocal of that with a positive one. torch-mlir 20261001 makes -inf of 0."""
    base, exponent = node.args
    if not value(node).is_floating_point() or not isinstance(exponent, int | float) or exponent >= 0:  # fmt: skip
        return None
    call = Builder(node)
    base = call.cast(base, value(node).dtype)
    return call(aten.reciprocal.default, call(node.target, base, -exponent))


@each(aten.atan2.default, with_open=True)
def atan2_by_signs(node: fx.Node) -> fx.Node:
    """atan2 of two zeros or two infinities, which torch-mlir 20261001 divides (NaN): x, and for infinities also y, is 1 with its sign."""
    call = Builder(node)
    y, x = (call.cast(each, value(node).dtype) for each in node.args)
    is_zero, is_infinite = (
        call(aten.logical_and.default, *(call(aten.eq.Scalar, call(aten.abs.default, n), limit) for n in (y, x)))
        for limit in (0.0, math.inf)
    )  # fmt: skip
    signs = []
    for number in (y, x):
        is_negative = call(aten.lt.Scalar, call(aten.reciprocal.default, number), 0.0)
        is_negative = call(aten.logical_or.default, is_negative, call(aten.lt.Scalar, number, 0.0))  # fmt: skip
        signs.append(call.where(is_negative, call.full([], -1.0, value(node).dtype), 1.0))
    y = call(aten.where.self, is_infinite, signs[0], y)
    is_limit = call(aten.logical_or.default, is_zero, is_infinite)
    return call(node.target, y, call(aten.where.self, is_limit, signs[1], x))


_OF_TENSORS = {
    aten.remainder.Scalar_Tensor: aten.remainder.Tensor,
    aten.fmod.Scalar: aten.fmod.Tensor,
}
"""Operators of a number and a tensor that torch-mlir 20261001 refuses, and PyTorch/XLA 2.9 the first of them, with those of two tensors."""


@each(*_OF_TENSORS, with_open=True)
def number_as_tensor(node: fx.Node) -> fx.Node:
    """The remainder of a number and a tensor, or a tensor and a number, is that of two tensors."""
    call = Builder(node)
    return call(_OF_TENSORS[node.target], *_of_type(call, node.args, value(node).dtype))


@each(aten.remainder.Tensor, aten.remainder.Scalar, with_open=True)
def remainder_by_sign(node: fx.Node) -> fx.Node | None:
    """A remainder whose sign is not that of the divisor has the divisor added to it. PyTorch computes none; in the StableHLO of
    torch-mlir 20261001, a remainder has the sign of the dividend.
    """
    call, dtype = Builder(node), value(node).dtype
    if dtype is torch.uint8:
        return None
    number, divisor = _of_type(call, node.args, dtype)
    rest = call(aten.remainder.Tensor, number, divisor)
    differs = call(aten.logical_and.default, _differ_in_sign(call, rest, divisor), call(aten.ne.Scalar, rest, 0))  # fmt: skip
    return call(aten.where.self, differs, call(aten.add.Tensor, rest, divisor), rest)


def _of_type(call: Builder, operands: Iterable[Any], dtype: torch.dtype) -> list[fx.Node]:
    """Tensors and numbers as tensors of a type."""
    tensors = []
    for operand in operands:
        if not isinstance(operand, fx.Node) or not isinstance(value(operand), torch.Tensor):
            tensors.append(call.full([], operand, dtype))
        else:
            tensors.append(operand if value(operand).dtype is dtype else call.cast(operand, dtype))
    return tensors


def _differ_in_sign(call: Builder, *tensors: fx.Node) -> fx.Node:
    """Where one of two tensors is negative and the other is not. torch-mlir 20261001 compares constant floats with the integer 0 wrongly."""
    zero = 0.0 if value(tensors[0]).is_floating_point() else 0
    return call(aten.logical_xor.default, *(call(aten.lt.Scalar, n, zero) for n in tensors))


def _remainder_of_sizes(call: Builder, number: fx.Node, divisor: fx.Node) -> fx.Node:
    """The remainder of |number| and |divisor|, which has one sign in all definitions."""
    return call(aten.remainder.Tensor, *(call(aten.abs.default, n) for n in (number, divisor)))


@each(aten.fmod.Tensor, with_open=True)
def fmod_by_remainder(node: fx.Node) -> fx.Node | None:
    """`fmod` of floats is the remainder of their sizes with the sign of the dividend.

    torch-mlir 20261001 computes x - trunc(x / y) * y, which is NaN for an infinite y, and inexact for large quotients.
    """
    call, dtype = Builder(node), value(node).dtype
    if not dtype.is_floating_point:
        return None
    number, divisor = _of_type(call, node.args, dtype)
    rest = _remainder_of_sizes(call, number, divisor)
    is_negative = call(aten.lt.Scalar, number, 0.0)
    return call(aten.where.self, is_negative, call(aten.neg.default, rest), rest)


_QUOTIENTS = (
    *(aten.floor_divide.default, aten.floor_divide.Scalar),
    *(aten.div.Tensor_mode, aten.div.Scalar_mode),
)


@each(*_QUOTIENTS, with_open=True)
def floor_divide_by_remainder(node: fx.Node) -> fx.Node | None:
    """The floor of a quotient of floats is computed from what is left without the remainder, as PyTorch does.

    Both frontends take the floor of the quotient, which may have been rounded up: 1 // 0.1 is 9. A quotient by a power of two is not
    rounded, but that of infinity is NaN.
    """
    dtype = value(node).dtype
    if node.kwargs.get("rounding_mode", "floor") != "floor" or not dtype.is_floating_point:
        return None
    call = Builder(node)
    wide = dtype if dtype in WIDE else torch.float32
    number, divisor = _of_type(call, node.args, wide)
    quotient = call(aten.div.Tensor, number, divisor)
    if isinstance(node.args[1], int | float) and abs(math.frexp(node.args[1])[0]) == 0.5:
        is_infinite = call(aten.eq.Scalar, call(aten.abs.default, number), math.inf)
        result = call(aten.where.self, is_infinite, call.full([], math.nan, wide), call(aten.floor.default, quotient))  # fmt: skip
    else:
        result = _floor(call, number, divisor, quotient)
    return result if wide is dtype else call.cast(result, dtype)


def _floor(call: Builder, number: fx.Node, divisor: fx.Node, quotient: fx.Node) -> fx.Node:
    """The floor of a quotient, given as it was rounded."""
    rest = _remainder_of_sizes(call, number, divisor)
    size, by = (call(aten.abs.default, n) for n in (number, divisor))
    whole = call(aten.div.Tensor, call(aten.sub.Tensor, size, rest), by)
    below = call(aten.neg.default, call(aten.add.Tensor, whole, call.cast(call(aten.ne.Scalar, rest, 0.0), value(whole).dtype)))  # fmt: skip
    whole = call(aten.where.self, _differ_in_sign(call, number, divisor), below, whole)
    floor = call(aten.floor.default, whole)
    is_rounded = call(aten.gt.Scalar, call(aten.sub.Tensor, whole, floor), 0.5)
    floor = call(aten.where.self, is_rounded, call(aten.add.Scalar, floor, 1), floor)
    return call(aten.where.self, call(aten.eq.Scalar, divisor, 0.0), quotient, floor)


@each(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default, with_open=True)
def averages_of_whole_windows(node: fx.Node) -> fx.Node | None:
    """Averages over windows without padding need not count what is in a window: `count_include_pad=True`.

    torch-mlir 20261001 lowers the count to a sum of ones in StableHLO, which IREE 3.13 computes as 1 in float16 and bfloat16.
    """
    given = {declared.name: argument(node, declared.name) for declared in node.target._schema.arguments}  # fmt: skip
    if given["count_include_pad"] or value(node).dtype in WIDE or any(given["padding"]):
        return None
    return Builder(node)(node.target, *(given | {"count_include_pad": True}).values())


@each(aten.log10.default, with_open=True)
def log10_by_log(node: fx.Node) -> fx.Node:
    """log10(x) is log(x) / log(10): IREE 3.13 does not link log10f."""
    call, dtype = Builder(node), value(node).dtype
    number = node.args[0]
    if not value(number).is_floating_point():
        number = call.cast(number, dtype)
    return call(aten.div.Scalar, call(aten.log.default, number), math.log(10))


@each(aten.constant_pad_nd.default, with_open=True)
def negative_padding_as_slice(node: fx.Node) -> fx.Node | None:
    """Padding of negative width takes values away: torch-mlir 20261001 makes an operation of it that IREE 3.13 refuses."""
    result, widths = argument(node, "self"), list(argument(node, "pad"))
    if not all(isinstance(width, int) for width in widths) or min(widths, default=0) >= 0:
        return None
    call = Builder(node)
    for number in range(len(widths) // 2):
        start, end = (max(0, -width) for width in widths[2 * number : 2 * number + 2])
        if start or end:
            result = call(aten.slice.Tensor, result, -1 - number, start, -end or None)
    kept = [max(0, width) for width in widths]
    return call(node.target, result, kept, *node.args[2:], **node.kwargs)
