"""Functions of numbers that are computed wrongly behind a lowering path, or that it refuses, in forms that it computes rightly.

`vmfbench fuzz` has found them, and workflow/known_failures.yaml names the causes (torch-mlir 20261001, IREE 3.13). Values are those of eager, but for the rounding of asinh, sinh, atanh, tan, gelu, logcumsumexp and log10, and the sign of a zero.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from scripts.frontends.lowering.fx_rewrites.edit import (
    WIDE,
    Builder,
    argument,
    aten,
    each,
    of_type,
    value,
)


@each(aten.asinh.default, with_dynamic=True)
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


@each(aten.sinh.default, aten.atanh.default, with_dynamic=True)
def hyperbolic_near_zero(node: fx.Node) -> fx.Node:
    """sinh by expm1, and atanh by log1p. torch-mlir 20261001 subtracts exponentials, and logarithms, that are nearly equal near 0."""
    call, dtype = Builder(node), value(node).dtype
    wide = dtype if dtype in WIDE else torch.float32
    (x,) = of_type(call, node.args, wide)
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


_QUARTER = (1.5703125, 4.825592041015625e-4, 1.2665987014770508e-06, 9.920935796805404e-10)
"""pi / 2 in parts, of which the first three have 8 bits: their products with whole numbers up to 65536 are exact in float32."""


@each(aten.tan.default, with_dynamic=True)
def tan_by_quadrants(node: fx.Node) -> fx.Node:
    """tan of the distance r to the next multiple of pi / 2, or -1 / tan(r) if that is an odd one. Up to 1e5, its relative error is below 1e-6.

    torch-mlir 20261001 and IREE 3.13 divide the sine by the cosine, which has few digits near 0.
    """
    call, dtype = Builder(node), value(node).dtype
    wide = dtype if dtype in WIDE else torch.float32
    (rest,) = of_type(call, node.args, wide)
    count = call(aten.mul.Scalar, rest, 2 / math.pi)
    count = call(aten.floor.default, call(aten.add.Scalar, count, 0.5))
    for part in _QUARTER:
        rest = call(aten.sub.Tensor, rest, call(aten.mul.Scalar, count, part))
    near = call(node.target, rest)
    far = call(aten.neg.default, call(aten.reciprocal.default, near))
    half = call(aten.mul.Scalar, count, 0.5)
    is_even = call(aten.eq.Tensor, half, call(aten.floor.default, half))
    result = call(aten.where.self, is_even, near, far)
    return result if wide is dtype else call.cast(result, dtype)


@each(aten.gelu.default, with_dynamic=True)
def gelu_as_tanh(node: fx.Node) -> fx.Node | None:
    """gelu by tanh is computed as it is defined. torch-mlir 20261001 takes 0.797724 for sqrt(2 / pi), which is 0.797885."""
    if argument(node, "approximate") != "tanh":
        return None
    call, dtype = Builder(node), value(node).dtype
    wide = dtype if dtype in WIDE else torch.float32
    (x,) = of_type(call, node.args[:1], wide)
    square = call(aten.mul.Tensor, x, x)
    inner = call(aten.add.Scalar, call(aten.mul.Scalar, square, 0.044715), 1.0)
    inner = call(aten.mul.Tensor, call(aten.mul.Scalar, x, math.sqrt(2 / math.pi)), inner)
    both = call(aten.add.Scalar, call(aten.tanh.default, inner), 1.0)
    result = call(aten.mul.Tensor, call(aten.mul.Scalar, x, 0.5), both)
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


@each(aten.pow.Tensor_Scalar, with_dynamic=True)
def pow_of_booleans(node: fx.Node) -> fx.Node | None:
    """A power of booleans is the booleans, or 1 for an exponent of 0. torch-mlir 20261001 makes int64 of it, or refuses it, as PyTorch/XLA 2.9 does."""
    base, exponent = node.args
    if value(base).dtype is not torch.bool or not isinstance(exponent, int):
        return None
    call, dtype = Builder(node), torch.bool if isinstance(exponent, bool) else value(node).dtype
    return call.cast(base, dtype) if exponent else call(aten.ones_like.default, base, dtype=dtype)


@each(aten.pow.Tensor_Tensor, aten.pow.Scalar, aten.pow.Tensor_Scalar, with_dynamic=True)
def pow_of_size(node: fx.Node) -> fx.Node | None:
    """`|x| ** y` in place of `x ** y`, negated where x is negative and y odd; for a fraction y, `|x|` where x is -inf.

    IREE 3.13 computes exp(y * log(x)), which is NaN for each base below 0, and for 0 to the power of 0.
    """
    call, dtype = Builder(node), value(node).dtype
    base, exponent = node.args
    if node.target is aten.pow.Tensor_Scalar:
        if _is_whole(exponent) or abs(exponent) == 0.5 or not value(base).is_floating_point():
            return None
        is_infinite = call(aten.eq.Scalar, base, -math.inf)
        infinity = call.full([], math.inf, dtype)
        return call(node.target, call(aten.where.self, is_infinite, infinity, base), exponent)
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


def _is_whole(exponent: Any) -> bool:
    """Whether an exponent is a whole number, or not known."""
    return not isinstance(exponent, float) or not math.isfinite(exponent) or exponent.is_integer()


_PRODUCTS = (-2, -1, 0, 1, 2, 3)
"""Exponents for which StableHLO becomes products."""


@each(aten.pow.Tensor_Scalar, with_dynamic=True)
def whole_pow_of_size(node: fx.Node) -> fx.Node | None:
    """`|x| ** n` in place of `x ** n` for a whole number n, negated where x is negative and n odd.

    In StableHLO, IREE 3.13 computes exp(n * log(x)), which is NaN for each x below 0.
    """
    base, exponent = node.args
    if not isinstance(exponent, int | float) or not _is_whole(exponent) or exponent in _PRODUCTS:
        return None
    if not value(base).is_floating_point() or not math.isfinite(exponent):
        return None
    call = Builder(node)
    power = call(node.target, call(aten.abs.default, base), exponent)
    if exponent % 2 == 0:
        return power
    return call(aten.where.self, call(aten.lt.Scalar, base, 0.0), call(aten.neg.default, power), power)  # fmt: skip


@each(aten.pow.Tensor_Scalar, with_dynamic=True)
def negative_pow_as_reciprocal(node: fx.Node) -> fx.Node | None:
    """A power with a negative exponent is the reciprocal of that with a positive one. torch-mlir 20261001 makes -inf of 0."""
    base, exponent = node.args
    if not value(node).is_floating_point() or not isinstance(exponent, int | float) or exponent >= 0:  # fmt: skip
        return None
    call = Builder(node)
    base = call.cast(base, value(node).dtype)
    return call(aten.reciprocal.default, call(node.target, base, -exponent))


@each(aten.atan2.default, with_dynamic=True)
def atan2_by_signs(node: fx.Node) -> fx.Node:
    """atan2 of two zeros or two infinities, which torch-mlir 20261001 divides (NaN): x, and for infinities also y, is 1 with its sign. The
    result has the sign of y, also of -0."""
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
    angle = call(node.target, y, call(aten.where.self, is_limit, signs[1], x))
    return call(aten.mul.Tensor, call(aten.abs.default, angle), signs[0])


_OF_TENSORS = {
    aten.remainder.Scalar_Tensor: aten.remainder.Tensor,
    aten.fmod.Scalar: aten.fmod.Tensor,
    aten.rsub.Scalar: aten.rsub.Tensor,
}
"""Operators of a number and a tensor, with those of two tensors. torch-mlir 20261001 refuses the remainders, and PyTorch/XLA 2.9 the first
of them. The difference of a number and integers is int64 in PyTorch/XLA."""


@each(*_OF_TENSORS, with_dynamic=True)
def number_as_tensor(node: fx.Node) -> fx.Node | None:
    """The remainder or difference of a number and a tensor is that of two tensors."""
    call, dtype, further = Builder(node), value(node).dtype, {}
    if node.target is aten.rsub.Scalar:
        if dtype.is_floating_point or dtype is torch.int64:
            return None
        further = {"alpha": argument(node, "alpha")}
    return call(_OF_TENSORS[node.target], *of_type(call, node.args[:2], dtype), **further)


@each(aten.remainder.Tensor, aten.remainder.Scalar, with_dynamic=True)
def remainder_by_sign(node: fx.Node) -> fx.Node | None:
    """A remainder whose sign is not that of the divisor has the divisor added to it. PyTorch computes none; in the StableHLO of
    torch-mlir 20261001, a remainder has the sign of the dividend.
    """
    call, dtype = Builder(node), value(node).dtype
    if dtype is torch.uint8:
        return None
    number, divisor = of_type(call, node.args, dtype)
    rest = call(aten.remainder.Tensor, number, divisor)
    differs = call(aten.logical_and.default, _differ_in_sign(call, rest, divisor), call(aten.ne.Scalar, rest, 0))  # fmt: skip
    return call(aten.where.self, differs, call(aten.add.Tensor, rest, divisor), rest)


def _differ_in_sign(call: Builder, *tensors: fx.Node) -> fx.Node:
    """Where one of two tensors is negative and the other is not. torch-mlir 20261001 compares constant floats with the integer 0 wrongly."""
    zero = 0.0 if value(tensors[0]).is_floating_point() else 0
    return call(aten.logical_xor.default, *(call(aten.lt.Scalar, n, zero) for n in tensors))


def _remainder_of_sizes(call: Builder, number: fx.Node, divisor: fx.Node) -> fx.Node:
    """The remainder of |number| and |divisor|, which has one sign in all definitions."""
    return call(aten.remainder.Tensor, *(call(aten.abs.default, n) for n in (number, divisor)))


@each(aten.fmod.Tensor, with_dynamic=True)
def fmod_by_remainder(node: fx.Node) -> fx.Node | None:
    """`fmod` of floats is the remainder of their sizes with the sign of the dividend.

    torch-mlir 20261001 computes x - trunc(x / y) * y, which is NaN for an infinite y, and inexact for large quotients.
    """
    call, dtype = Builder(node), value(node).dtype
    if not dtype.is_floating_point:
        return None
    number, divisor = of_type(call, node.args, dtype)
    rest = _remainder_of_sizes(call, number, divisor)
    is_negative = call(aten.lt.Scalar, number, 0.0)
    return call(aten.where.self, is_negative, call(aten.neg.default, rest), rest)


_QUOTIENTS = (
    *(aten.floor_divide.default, aten.floor_divide.Scalar),
    *(aten.div.Tensor_mode, aten.div.Scalar_mode),
)


@each(*_QUOTIENTS, with_dynamic=True)
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
    number, divisor = of_type(call, node.args, wide)
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


@each(aten.log10.default, with_dynamic=True)
def log10_by_log(node: fx.Node) -> fx.Node:
    """log10(x) is log(x) / log(10): IREE 3.13 does not link log10f."""
    call, dtype = Builder(node), value(node).dtype
    number = node.args[0]
    if not value(number).is_floating_point():
        number = call.cast(number, dtype)
    return call(aten.div.Scalar, call(aten.log.default, number), math.log(10))
