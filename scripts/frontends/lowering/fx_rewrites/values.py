"""Operators whose values are computed wrongly behind a lowering path, or that it refuses, in forms that it computes rightly.

`vmfbench fuzz` has found them, and workflow/known_failures.yaml names the causes (torch-mlir 20261001, IREE 3.13). Values are those of
eager. arithmetic.py has functions of numbers, and in_place.py what IREE writes over.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np
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


@each(
    aten.sum.default, aten.sum.dim_IntList, aten.amin.default, aten.amax.default, with_dynamic=True
)
def sum_over_dimensions(node: fx.Node) -> fx.Node | None:
    """A sum of all elements, or the least or largest of them, names the dimensions: PyTorch/XLA 2.9 goes over none if none is named."""
    tensor = argument(node, "self")
    dims = list(range(value(tensor).dim()))
    if not dims or (node.target is not aten.sum.default and argument(node, "dim")):
        return None
    target = aten.sum.dim_IntList if node.target is aten.sum.default else node.target
    return Builder(node)(target, tensor, dims, *node.args[2:], **node.kwargs)


@each(aten.dot.default, with_dynamic=True)
def dot_as_sum(node: fx.Node) -> fx.Node:
    """The product of two vectors is the sum of the products of their values: PyTorch/XLA 2.9 leaves out the sum."""
    call = Builder(node)
    products = call(aten.mul.Tensor, *node.args)
    return call(aten.sum.dim_IntList, products, [0], dtype=value(node).dtype)


@each(aten.linalg_vector_norm.default, with_dynamic=True)
def norm_of_order_0_as_sum(node: fx.Node) -> fx.Node | None:
    """A norm of order 0 is the number of values that are not 0. PyTorch/XLA 2.9 counts in 8 bits, up to 255."""
    if argument(node, "ord") != 0:
        return None
    call, tensor = Builder(node), argument(node, "self")
    counted = call.cast(call(aten.ne.Scalar, tensor, 0.0), torch.float32)
    dims = argument(node, "dim") or list(range(value(tensor).dim()))
    total = call(aten.sum.dim_IntList, counted, dims, argument(node, "keepdim"))
    return call.cast(total, value(node).dtype)


@each(aten.diagonal.default)
def diagonal_as_slice(node: fx.Node) -> fx.Node | None:
    """A diagonal is a slice of rows that follow each other. PyTorch/XLA 2.9 takes that of the last two dimensions for that of the first two, and
    torch-mlir 20261001 lowers none to StableHLO."""
    tensor, offset, *dims = (argument(node, name) for name in ("self", "offset", "dim1", "dim2"))
    shape, count = list(value(tensor).shape), value(node).shape[-1]
    first, second = (dim % len(shape) for dim in dims)
    if not count:
        return None
    call, others = Builder(node), [dim for dim in range(len(shape)) if dim not in (first, second)]
    columns = shape[second]
    moved = call(aten.permute.default, tensor, [*others, first, second])
    flat = call(
        aten.reshape.default, moved, [*(shape[dim] for dim in others), shape[first] * columns]
    )
    start = offset if offset >= 0 else -offset * columns
    end = start + (count - 1) * (columns + 1) + 1
    return call(aten.slice.Tensor, flat, -1, start, end, columns + 1)


_MIXED = ({torch.int8, torch.uint8}, {torch.float16, torch.bfloat16})

_UNTAGGED = (
    *(aten.__and__.Tensor, aten.__or__.Tensor, aten.__xor__.Tensor),
    aten.floor_divide.default,
)
"""Pointwise operators that are not tagged as such."""


def types_promoted_first(program: ExportedProgram) -> bool:
    """Tensors of int8 and uint8, or of float16 and bfloat16, are converted to the type of both before an operator takes them.

    PyTorch/XLA 2.9 converts one to the type of the other, and so does torch-mlir 20261001 for StableHLO where it compares bytes.
    """
    changed = False
    for node in list(program.graph.nodes):
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            is_pointwise = torch.Tag.pointwise in node.target.tags or node.target in _UNTAGGED
            changed |= is_pointwise and _promote(node)
    return changed


def _promote(node: fx.Node) -> bool:
    """Convert the tensors that a call takes, if that is needed; return whether it is."""
    mixed = [n for n in operands(node) if any(value(n).dtype in kinds for kinds in _MIXED)]
    if {value(n).dtype for n in mixed} not in _MIXED:
        return False
    # A tensor without dimensions has no say, as in PyTorch.
    deciding = [n for n in mixed if value(n).dim()] or mixed
    dtype = functools.reduce(torch.promote_types, [value(n).dtype for n in deciding])
    call = Builder(node)
    casts = {n: call.cast(n, dtype) for n in mixed}
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: casts.get(n, n))
    replace(node, call(node.target, *args, **kwargs))
    return True


@each(aten.eq.Tensor, aten.isfinite.default, with_dynamic=True)
def equal_to_itself(node: fx.Node) -> fx.Node | None:
    """`x == x` is that x is not NaN: torch-mlir 20261001 makes True of it. `isfinite` is that |x| is below infinity: torch-mlir has it
    for StableHLO alone."""
    call, number = Builder(node), node.args[0]
    if not value(number).is_floating_point():
        return None
    if node.target is aten.isfinite.default:
        return call(aten.lt.Scalar, call(aten.abs.default, number), math.inf)
    if source_of(number) is not source_of(node.args[1]):
        return None
    return call(aten.logical_not.default, call(aten.ne.Tensor, number, number))


@each(aten.clamp.default, with_dynamic=True)
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
    for node in calls(program, *_COMPARISONS, with_dynamic=True):
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
    for node in calls(program, aten.maximum.default, aten.minimum.default, *_LIMITS, with_dynamic=True):  # fmt: skip
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


@each(*_SUMS, with_dynamic=True)
def sums_of_booleans_in_int32(node: fx.Node) -> fx.Node | None:
    """A sum of booleans is whether one of them is True: they are added as int32.

    torch-mlir 20261001 adds them in one bit, where True and True is False.
    """
    adds = node.target is not aten.index_put.default or argument(node, "accumulate")
    return _in_type(node, torch.int32) if value(node).dtype is torch.bool and adds else None


@each(*_PRODUCTS, with_dynamic=True)
def products_of_8_bits_in_int32(node: fx.Node) -> fx.Node | None:
    """A product of matrices of 8 bits is computed in int32 and cut to 8 bits, which is the same.

    torch-mlir 20261001 refuses it, and crashes (SIGSEGV).
    """
    narrow = value(node).dtype in (torch.int8, torch.uint8)
    return _in_type(node, torch.int32) if narrow else None


_OF_MATRICES = (aten.mm.default, aten.linear.default, aten.addmm.default, aten.bmm.default)


@each(*_OF_MATRICES, aten.matmul.default)
def product_of_one_row(node: fx.Node) -> fx.Node | None:
    """The product of rows, or by a column, that are repeated is that of the rows or column, repeated. The data tiling of IREE 3.13 crashes (SIGSEGV)."""
    adds = node.target is aten.addmm.default
    bias = value(argument(node, "self")) if adds else None
    if bias is not None and bias.dim() > 1 and bias.shape[0] != 1:
        return None
    for number, summed in ((int(adds), -1), *[(1, -2)] * (node.target is aten.mm.default)):
        own, shape = _own_shape(node.args[number], summed), list(value(node.args[number]).shape)
        if own is None:
            continue
        call, args = Builder(node), list(node.args)
        if value(args[1]).dim() > 2:
            other = _own_shape(args[1], -2)
            if other is not None and other[:-2] == own[:-2]:
                args[1] = _once(call, args[1], other)
            else:
                own[:-2] = shape[:-2]
        if own == shape:
            continue
        args[number] = _once(call, args[number], own)
        product = call(node.target, *args, **node.kwargs)
        return call(aten.expand.default, product, list(value(node).shape))
    return None


def _repeated(matrix: fx.Node) -> fx.Node:
    """The call that a matrix comes from, through what changes its shape alone."""
    while True:
        matrix = source_of(matrix, RESHAPED)
        is_idle = matrix.target is aten.expand.default and value(matrix).shape == value(matrix.args[0]).shape  # fmt: skip
        if not is_idle:
            return matrix
        matrix = matrix.args[0]


def _once(call: Builder, matrix: fx.Node, own: list[int]) -> fx.Node:
    """What a matrix repeats, in a shape of `_own_shape`."""
    source = _repeated(matrix).args[0]
    if value(source).dim() > len(own):  # one row
        source = call(aten.reshape.default, source, [1] * (len(own) - 1) + own[-1:])
    return call(aten.expand.default, source, own)


def _own_shape(matrix: fx.Node, summed: int) -> list[int] | None:
    """The shape of what a matrix repeats in dimensions that a product does not sum; None if it repeats nothing."""
    repeated, shape = _repeated(matrix), list(value(matrix).shape)
    if repeated.target is not aten.expand.default or not is_static(matrix, repeated):
        return None
    own = list(value(repeated.args[0]).shape)
    own = [1] * (len(shape) - len(own)) + own
    if list(value(repeated).shape) != shape:
        # In another shape, what is repeated is only known of one row.
        if summed != -1 or math.prod(own) != own[-1] or own[-1] != shape[-1]:
            return None
        own = [1] * (len(shape) - 1) + own[-1:]
    own[summed] = shape[summed]
    return None if len(shape) < 2 or own == shape else own


@each(aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, with_dynamic=True)
def sum_of_products_by_dimension(node: fx.Node) -> fx.Node | None:
    """A sum over several dimensions of a product with a tensor that is repeated along one of them, and not along a later one, is first over the last one.

    IREE 3.13 refuses it, such as (x * y).sum() of 4 and 3×4, because it makes a product of matrices of it: 'vector.contract' op invalid accumulator.
    """
    products = source_of(argument(node, "self"))
    if products.target is not aten.mul.Tensor:
        return None
    is_sum, names_dims = "sum" in str(node.target), node.target in (aten.sum.dim_IntList, aten.mean.dim)  # fmt: skip
    rank = value(products).dim()
    named = (names_dims and argument(node, "dim")) or range(rank)
    dims = sorted({dim % rank for dim in named})

    def is_refused(factor: fx.Node) -> bool:
        own = value(factor.args[0] if factor.target is aten.expand.default else factor).shape
        sizes = [1] * (rank - len(own)) + list(own)
        repeated = [dim for dim in dims if not is_symbolic(sizes[dim]) and sizes[dim] == 1]
        return any(before < dim for before in repeated for dim in dims if dim not in repeated)

    if not any(map(is_refused, map(source_of, operands(products)))):
        return None
    call, target = Builder(node), aten.sum.dim_IntList if is_sum else aten.mean.dim
    along_last = call(target, node.args[0], dims[-1:], True, **node.kwargs)
    return call(target, along_last, dims, names_dims and argument(node, "keepdim"), **node.kwargs)


_BITS = (aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor)
_BYTES = {torch.int8, torch.uint8}
_DIVISIONS = (
    *(aten.div.Tensor_mode, aten.div.Scalar_mode, aten.floor_divide.default),
    *(aten.remainder.Tensor, aten.remainder.Scalar),
)


@each(
    *(*_BITS, *_DIVISIONS, aten.maximum.default, aten.minimum.default),
    *(aten.sub.Tensor, aten.sub.Scalar, aten.mul.Tensor, aten.mul.Scalar),
    *(aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor),
    with_dynamic=True,
)  # fmt: skip
def bytes_in_int32(node: fx.Node) -> fx.Node | None:
    """8-bit integers are combined with numbers, booleans and each other's type, and divided, in int32. The result is cut to 8 bits, which is the same.

    torch-mlir 20261001 converts them where an operator takes two types, refuses that, and crashes (SIGSEGV).
    """
    tensors, dtype = list(operands(node)), value(node).dtype
    kinds = {value(tensor).dtype for tensor in tensors}
    of_bytes = kinds & _BYTES and kinds <= {*_BYTES, torch.bool}
    if not of_bytes or dtype not in {*_BYTES, torch.bool}:
        return None
    if len(tensors) == 2 and len(kinds) == 1 and node.target not in _DIVISIONS:
        return None
    call, common = Builder(node), torch.result_type(value(tensors[0]), value(tensors[-1]))
    wide = {tensor: call.cast(call.cast(tensor, common), torch.int32) for tensor in tensors}
    args, kwargs = fx.map_arg((node.args, node.kwargs), wide.__getitem__)
    result = call(node.target, *args, **kwargs)
    return result if value(result).dtype is dtype else call.cast(result, dtype)


_ALL = (aten.all.default, aten.all.dim, aten.any.default, aten.any.dim)

_OF_NARROW = {
    **dict.fromkeys((aten.bitwise_right_shift.Tensor, *_ALL), torch.uint8),
    **dict.fromkeys((aten.amin.default, aten.amax.default, aten.min.dim, aten.max.dim), torch.bool),
}
"""Operators of one type that torch-mlir 20261001 lowers to StableHLO with signs: a shift of uint8 repeats the highest bit, and the least
of booleans is False, the largest True. `all` and `any` of uint8 combine the bits."""


@each(*_OF_NARROW, with_dynamic=True)
def shifts_and_extremes_in_int32(node: fx.Node) -> fx.Node | dict[int, fx.Node] | None:
    """A shift of bytes to the right, whether all or any are not 0, and the least and largest of booleans, are computed in int32."""
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
    *(aten.sort.default, aten.topk.default, aten.max.default, aten.min.default, *_ALL),
)  # fmt: skip


def unsigned_bytes_in_wider_type(program: ExportedProgram) -> bool:
    """Tensors of uint8 are converted to the type of a result before it is computed, or to int32 if that is uint8; floats become uint8
    by way of int32. Booleans are sorted, and compared with other types, as int32 or wider.

    Inside an operator, torch-mlir 20261001 takes 128 to 255, and True, as negative (torch dialect, linalg). It converts a tensor by itself rightly.
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
    compares = is_pointwise and result is torch.bool and len(set(kinds)) > 1
    narrow_kinds = {torch.uint8, *[torch.bool] * (compares or node.target is aten.sort.default)}
    if not narrow_kinds & set(kinds) or not (is_pointwise or node.target in _OF_SEVERAL):
        return False
    alone = set(kinds) == {torch.uint8}
    if alone and (node.target in _WITHOUT_SIGN or (is_pointwise and result is torch.bool)):
        return False
    wide = result
    if result in (torch.uint8, torch.bool):
        wide = functools.reduce(torch.promote_types, kinds, torch.int32)
    condition = node.args[0] if node.target is aten.where.self else None
    narrow = [n for n in operands(node) if value(n).dtype in narrow_kinds and n is not condition]  # fmt: skip
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


@each(aten.rms_norm.default, with_dynamic=True)
def rms_norm_in_float32(node: fx.Node) -> fx.Node | None:
    """The squares of narrow numbers are added in float32, as eager does. torch-mlir 20261001 adds them in their own type, where they become infinite."""
    narrow = value(node).dtype in (torch.float16, torch.bfloat16)
    return _in_type(node, torch.float32) if narrow else None


@each(aten.rms_norm.default, with_dynamic=True)
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


@each(*_ADDING, with_dynamic=True)
def sums_of_16_bits_in_float32(node: fx.Node) -> fx.Node | None:
    """Sums, means and norms of f16 and bf16 are computed in float32 and rounded once, as eager does. IREE 3.13 rounds after each addition."""
    return _in_float32(node)


_VARIANCES = (aten.var, aten.std, aten.var_mean, aten.std_mean)


@each(
    *(getattr(op, name) for op in _VARIANCES for name in ("default", "dim", "correction")),
    with_dynamic=True,
)
def variances_of_16_bits_in_float32(node: fx.Node) -> fx.Node | dict[int, fx.Node] | None:
    """Variances of f16 and bf16 are computed in float32 and rounded once, as eager does. PyTorch/XLA 2.9 adds squares in 16 bits, where they become infinite."""
    return _in_float32(node)


def _in_float32(node: fx.Node) -> fx.Node | dict[int, fx.Node] | None:
    """A call whose tensor has the results' type of 16 bits, in float32. The results have their own type again."""
    results = value(node)
    several = isinstance(results, tuple | list)
    dtype = (results[0] if several else results).dtype
    if dtype not in (torch.float16, torch.bfloat16) or value(argument(node, "self")).dtype is not dtype:  # fmt: skip
        return None
    call = Builder(node)
    given = {name: given for name, given in node.kwargs.items() if name != "dtype"}
    wide = call.cast(argument(node, "self"), torch.float32)
    new = call(node.target, wide, *node.args[1:], **given)
    if not several:
        return call.cast(new, dtype)
    return {n: call.cast(call(operator.getitem, new, n), dtype) for n in range(len(results))}


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


@each(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default, with_dynamic=True)
def averages_of_whole_windows(node: fx.Node) -> fx.Node | None:
    """Averages over windows without padding need not count what is in a window: `count_include_pad=True`.

    torch-mlir 20261001 lowers the count to a sum of ones in StableHLO, which IREE 3.13 computes as 1 in float16 and bfloat16.
    """
    given = {declared.name: argument(node, declared.name) for declared in node.target._schema.arguments}  # fmt: skip
    if given["count_include_pad"] or value(node).dtype in WIDE or any(given["padding"]):
        return None
    return Builder(node)(node.target, *(given | {"count_include_pad": True}).values())


@each(aten.constant_pad_nd.default, with_dynamic=True)
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
