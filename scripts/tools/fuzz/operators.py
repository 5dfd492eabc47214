"""The operators that graphs are made of, and how their arguments are drawn. Each function adds a call, or raises Unsuitable."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import random
from collections.abc import Callable

import torch

from scripts.tools.fuzz.generator import ATTEMPTS, EAGER_ERRORS, Draw, Graph, Unsuitable, Value

Operator = Callable[[Draw], None]
INDEX = torch.int64


def full(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0


def unary(kinds: str, names: str) -> dict[str, Operator]:
    return by_name(names, lambda d, name: d.call(f"{name}.default", d.any(kinds)))


def binary(d: Draw, name: str, suffix: str = "Tensor", kinds: str = "fib", **more: object) -> None:
    """An operator of two values that are broadcast, or of a value and a number."""
    x = d.any(kinds)
    overloads = {"pow": ("Tensor_Tensor", "Tensor_Scalar"), "floor_divide": ("default", "Scalar"), "div_mode": ("Tensor_mode", "Scalar_mode")}  # fmt: skip
    of_tensor, of_scalar = overloads.get(name, (suffix, "Scalar"))
    name = name.removesuffix("_mode")
    if suffix == "Tensor" and d.chance(0.25):
        d.call(f"{name}.{of_scalar}", x, d.scalar(d.at(x)), **more)
    else:
        pair = [x, d.beside(x, kinds)]
        d.random.shuffle(pair)
        d.call(f"{name}.{of_tensor}", *pair, **more)


def shift(d: Draw, name: str) -> None:
    x = d.any("i")
    d.call(f"{name}.Tensor", x, d.of_type(x, d.at(x).shape, f"index:{d.pick(2, 7)}"))


def lerp(d: Draw, name: str) -> None:
    x = d.any("f")
    y, z, number = d.beside(x, "f"), d.beside(x, "f"), d.pick(1, 0.5, -2)
    if name == "lerp":
        d.call("lerp.Scalar", x, y, number)
    else:
        d.call(f"{name}.default", x, y, z, value=number)


def where(d: Draw) -> None:
    x = d.any()
    condition = d.any("b") if d.chance(0.3) else d.exactly(d.at(x).shape, "b", torch.bool)
    d.call("where.self", condition, x, d.beside(x))


def clamp(d: Draw) -> None:
    x = d.any("fi")
    low, high = sorted((d.scalar(d.at(x)), d.scalar(d.at(x))))
    if d.chance(0.3):
        d.call("clamp.Tensor", x, d.beside(x, "fi"), d.beside(x, "fi"))
    else:
        d.call("clamp.default", x, *d.pick((low, high), (low,), (None, high)))


def masked_fill(d: Draw) -> None:
    x = d.any()
    number = d.scalar(d.at(x))
    d.call("masked_fill.Scalar", x, d.beside(x, "b"), d.pick(number, -math.inf) if d.at(x).is_floating_point() else number)  # fmt: skip


def reduction(d: Draw, name: str, overload: str, kinds: str, single: bool = False) -> None:
    x = d.any(kinds, 1, 5, full if single else lambda _: True)
    dims = d.dim(d.at(x)) if single else d.dims(d.at(x))
    kwargs = {"dtype": d.dtype("fi")} if name == "sum" and d.chance(0.2) else {}
    d.call(f"{name}.{overload}", x, dims, d.chance(0.5), **kwargs)


def variance(d: Draw, name: str) -> None:
    x = d.any("f", 1, 5, full)
    d.call(f"{name}.correction", x, d.dims(d.at(x)), correction=d.pick(0, 1), keepdim=d.chance(0.5))


def norm(d: Draw) -> None:
    x = d.any("f", 1)
    order = d.pick(1, 2, 3, 0, math.inf, -math.inf)
    d.call("linalg_vector_norm.default", x, order, d.dims(d.at(x)), d.chance(0.5))


def along(d: Draw, name: str, kinds: str, *more: object) -> None:
    x = d.any(kinds, 1)
    d.call(f"{name}.default", x, d.dim(d.at(x)), *more)


def reshape(d: Draw, name: str) -> None:
    shape: list[int] = []
    x = d.any()
    left = d.at(x).numel()
    while left > 1 and len(shape) < 4 and d.chance(0.8):
        shape.append(d.pick(*[n for n in range(1, min(left, 70) + 1) if left % n == 0]))
        left //= shape[-1]
    shape.append(left)
    d.random.shuffle(shape)
    if d.chance(0.3) and d.at(x).numel():
        shape[d.random.randrange(len(shape))] = -1
    d.call(f"{name}.default", x, shape)


def roll(d: Draw) -> None:
    x = d.any("fib", 1)
    dims = d.dims(d.at(x))
    d.call("roll.default", x, [d.random.randint(-5, 5) for _ in dims], dims)


def two_dims(d: Draw, name: str) -> None:
    x = d.any("fib", 2)
    dims = d.random.sample(range(d.at(x).dim()), 2)
    match name:
        case "transpose.int" | "movedim.int":
            d.call(name, x, *dims)
        case "diagonal.default":
            d.call(name, x, d.random.randint(-2, 2), *dims)
        case "rot90.default":
            d.call(name, x, d.random.randint(0, 3), dims)
        case _:
            d.call(name, x, d.random.randint(-3, 3))


def expand(d: Draw, name: str) -> None:
    x = d.any("fib", 0, 4)
    more = [d.pick(1, 2, 3)] if d.chance(0.4) else []
    if name == "expand":
        sizes = [d.size() if size == 1 else d.pick(size, -1) for size in d.at(x).shape]
    else:
        sizes = [d.pick(1, 1, 2, 3) for _ in d.at(x).shape]
    d.call(f"{name}.default", x, [*more, *sizes])


def sliced(d: Draw, name: str) -> None:
    x = d.any("fib", 1)
    dim = d.dim(d.at(x))
    size, number = d.at(x).shape[dim], d.random.randint
    match name:
        case "slice.Tensor":
            end = d.pick(number(-size, size + 2), 2**63 - 1)
            d.call(name, x, dim, number(-size, size), end, d.pick(1, 1, 2, 3))
        case "select.int":
            d.call(name, x, dim, d.random.randrange(-size, max(1, size)))
        case "unbind.int":
            if size > 5:
                raise Unsuitable
            d.call(name, x, dim)
        case "unfold.default":
            d.call(name, x, dim, number(1, max(1, size)), number(1, 3))
        case "repeat_interleave.self_int":
            d.call(name, x, number(1, 3), dim)
        case "split.Tensor":
            least = max(1, -(-size // 4))
            d.call(name, x, number(least, max(least, size)), dim)
        case _:
            d.call(name, x, number(1, 4), dim)


def cat(d: Draw, name: str) -> None:
    x = d.any("fib", 0 if name == "stack" else 1, 4)
    rank = d.at(x).dim()
    dim = d.random.randrange(-rank - 1, rank + 1) if name == "stack" else d.dim(d.at(x))
    parts = [x]
    for _ in range(d.random.randint(1, 3)):
        shape = list(d.at(x).shape)
        if name == "cat":
            shape[dim] = d.size(0)
        parts.append(d.of_type(x, shape) if d.chance(0.8) else d.exactly(shape, "fib"))
    d.random.shuffle(parts)
    d.call(f"{name}.default", parts, dim)


def pad(d: Draw, name: str) -> None:
    if name == "constant_pad":
        x = d.any("fib", 1)
        pads = [d.random.randint(-1, 3) for _ in range(2 * d.random.randint(1, d.at(x).dim()))]
        d.call("constant_pad_nd.default", x, pads, d.scalar(d.at(x)))
    else:
        rank = d.pick(1, 2)
        x = d.any("f", rank + 1, rank + 2, full)
        d.call(f"{name}{rank}d.default", x, [d.random.randint(0, 3) for _ in range(2 * rank)])


def constant(d: Draw, name: str) -> None:
    kwargs = {"dtype": d.dtype("fi")} if d.chance(0.5) else {}
    if name == "full_like":
        x = d.any()
        d.call("full_like.default", x, d.scalar(d.at(x)))
    elif name == "arange":
        d.call("arange.start_step", d.random.randint(-3, 3), d.random.randint(4, 20), d.pick(1, 2, 3), **kwargs)  # fmt: skip
    else:
        d.call("eye.m", d.pick(1, 3, 8), d.pick(2, 3, 5), **kwargs)


def index_select(d: Draw) -> None:
    x = d.any("fib", 1)
    dim = d.dim(d.at(x))
    indices = d.exactly((d.size(),), "i", d.pick(INDEX, torch.int32), f"index:{d.at(x).shape[dim]}")
    d.call("index_select.default", x, dim, indices)


def embedding(d: Draw) -> None:
    x = d.any("f", 2, 2, full)
    d.call("embedding.default", x, d.exactly(d.shape(1, 2), "i", INDEX, f"index:{d.at(x).shape[0]}"))  # fmt: skip


def index_add(d: Draw, name: str) -> None:
    x = d.any("fi", 1, 4, full)
    dim = d.random.randrange(d.at(x).dim())
    shape = list(d.at(x).shape)
    size, shape[dim] = shape[dim], d.random.randint(1, shape[dim])
    rule = "once" if name == "index_copy" else "index"
    indices = d.exactly(shape[dim : dim + 1], "i", INDEX, f"{rule}:{size}")
    d.call(f"{name}.default", x, dim, indices, d.of_type(x, shape))


def scatter(d: Draw, name: str) -> None:
    base, _, overload = name.partition(".")
    x = d.any("fi" if "_" in base else "fib", 1, 4, full)
    dim = d.random.randrange(d.at(x).dim())
    size, shape = d.at(x).shape[dim], [d.random.randint(1, n) for n in d.at(x).shape]
    if base == "gather":
        shape[dim] = d.size()
    # Indices without repetition are drawn along the first dimension.
    if base == "scatter" and dim:
        raise Unsuitable
    indices = d.exactly(shape, "i", INDEX, f"{'once' if base == 'scatter' else 'index'}:{size}")
    source = () if base == "gather" else (d.scalar(d.at(x)),) if overload == "value" else (d.of_type(x, shape),)  # fmt: skip
    more = (d.pick("sum", "prod", "amax", "amin", "mean"),) if base == "scatter_reduce" else ()
    kwargs = {"include_self": d.chance(0.6)} if more else {}
    d.call(name, x, dim, indices, *source, *more, **kwargs)


def index(d: Draw, name: str) -> None:
    x = d.any("fib", 1, 4, full)
    tensor = d.at(x)
    places = sorted(d.random.sample(range(tensor.dim()), d.random.randint(1, min(2, tensor.dim()))))
    shape = d.pick((2,), (3,), (5,), (2, 3))
    indices: list[Value | None] = [None] * (places[-1] + 1)
    for place in places:
        indices[place] = d.exactly(shape, "i", INDEX, f"index:{tensor.shape[place]}")
    if name == "index":
        d.call("index.Tensor", x, indices)
        return
    chosen = tensor[tuple(slice(None) if i is None else d.at(i) for i in indices)]
    values = d.of_type(x, chosen.shape if d.chance(0.7) else [1] * chosen.dim())
    d.call("index_put.default", x, indices, values, tensor.dtype != torch.bool)


def slice_scatter(d: Draw, name: str) -> None:
    x = d.any("fib", 1, 4, full)
    dim = d.dim(d.at(x))
    shape = list(d.at(x).shape)
    start = d.random.randrange(shape[dim])
    if name == "select_scatter":
        d.call("select_scatter.default", x, d.of_type(x, d.at(x).select(dim, start).shape), dim, start)  # fmt: skip
        return
    end, step = d.random.randint(start + 1, shape[dim]), d.pick(1, 1, 2)
    shape[dim] = len(range(start, end, step))
    d.call("slice_scatter.default", x, d.of_type(x, shape), dim, start, end, step)


def sort(d: Draw, name: str) -> None:
    x = d.any("fi", 1, 4, full)
    dim = d.dim(d.at(x))
    count = (d.random.randint(1, d.at(x).shape[dim]),) if name == "topk" else ()
    d.call(f"{name}.default", x, *count, dim, d.chance(0.5))


def product(d: Draw, name: str) -> None:
    """A product of matrices. Numbers of integers are multiplied too."""
    low, high = {"matmul": (1, 4), "linear": (1, 4), "mv": (2, 2), "dot": (1, 1), "outer": (1, 1)}.get(name, (2, 2))  # fmt: skip
    low, high = (3, 3) if "bmm" in name else (low, high)
    x = d.any("f" if d.chance(0.85) else "fi", low, high)
    left, columns = list(d.at(x).shape), d.size()
    if name in ("mv", "dot", "outer"):
        d.call(f"{name}.default", x, d.of_type(x, (columns if name == "outer" else left[-1],)))
    elif name == "linear":
        bias = [d.of_type(x, (columns,))] if d.chance(0.5) else []
        d.call("linear.default", x, d.of_type(x, (columns, left[-1])), *bias)
    elif name == "matmul":
        batch = [n if d.chance(0.7) else 1 for n in left[:-2]]
        shape = [*batch[d.random.randint(0, len(batch)) :], left[-1], columns]
        d.call("matmul.default", x, d.of_type(x, shape if d.chance(0.8) else left[-1:]))
    else:
        y, bias = d.of_type(x, [*left[:-2], left[-1], columns]), []
        scales = {"beta": d.pick(0.5, 2), "alpha": d.pick(0.5, -1)} if d.chance(0.3) and d.at(x).is_floating_point() else {}  # fmt: skip
        if name.startswith("add") or name.startswith("badd"):
            bias = [d.of_type(x, [columns] if d.chance(0.5) else [*left[:-1], columns])]
        d.call(f"{name}.default", *bias, x, y, **(scales if bias else {}))


def convolution(d: Draw, name: str) -> None:
    rank, transposed = int(name[-2]), "transpose" in name
    x = d.any("f", rank + 2, rank + 2, lambda t: t.numel() > 0 and t.shape[1] <= 16)
    channels, filters = d.at(x).shape[1], d.pick(1, 2, 3, 4)
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    groups = d.pick(*divisors) if d.chance(0.4) else 1
    kernel, stride, padding, dilation = ([d.pick(*choices) for _ in range(rank)] for choices in ((1, 2, 3, 3, 4), (1, 1, 2, 3), (0, 0, 1, 2), (1, 1, 2)))  # fmt: skip
    shape = (channels, filters) if transposed else (filters * groups, channels // groups)
    weight, bias = d.of_type(x, [*shape, *kernel]), d.of_type(x, (filters * groups,)) if d.chance(0.5) else None  # fmt: skip
    extra = [d.random.randint(0, s - 1) if transposed and d.chance(0.3) else 0 for s in stride]
    d.call("convolution.default", x, weight, bias, stride, padding, dilation, transposed, extra, groups)  # fmt: skip


def pool(d: Draw, name: str) -> None:
    rank = int(name[name.index("pool") + 4])
    x = d.any("f", rank + 2, rank + 2, full)
    if name.startswith("_adaptive"):
        d.call(f"{name}.default", x, [d.pick(1, n, max(1, n // 2), 2) for n in d.at(x).shape[2:]])
        return
    kernel = [d.pick(1, 2, 2, 3) for _ in range(rank)]
    stride, padding = [d.pick(1, 2, 3) for _ in kernel], [d.random.randint(0, k // 2) for k in kernel]  # fmt: skip
    more = ([d.pick(1, 1, 2) for _ in kernel], d.chance(0.3)) if name.startswith("max") else (d.chance(0.3), d.chance(0.5))  # fmt: skip
    d.call(f"{name}.default", x, kernel, stride, padding, *more)


def upsample(d: Draw, name: str) -> None:
    x = d.any("f", 4, 4, full)
    sizes = [d.pick(1, 2, 3, n, 2 * n, n + 1) for n in d.at(x).shape[2:]]
    d.call(f"{name}.default", x, sizes, *([d.chance(0.5)] if "bilinear" in name else []))


def normalization(d: Draw, name: str) -> None:
    x = d.any("f", 2, 4, full)
    shape = d.at(x).shape
    own = list(shape[-d.random.randint(1, len(shape) - 1) :])
    weights = [d.of_type(x, own) for _ in range(1 if name == "rms_norm" else 2)]
    channels = [d.of_type(x, (shape[1],)) for _ in range(3)]
    match name:
        case "layer_norm" | "rms_norm":
            d.call(f"{name}.default", x, own, *(weights if d.chance(0.6) else []))
        case "group_norm":
            groups = d.pick(*[n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
            d.call("group_norm.default", x, groups, *channels[:2])
        case _:
            variances = d.of_type(x, (shape[1],), "positive")
            d.call("_native_batch_norm_legit_no_training.default", x, *channels, variances, 0.1, 1e-5)  # fmt: skip


def attention(d: Draw) -> None:
    q = d.any("f", 3, 4, lambda t: t.numel() > 0 and t.shape[-1] <= 64 and t.shape[-2] <= 64)
    *batch, rows, width = d.at(q).shape
    columns, out = d.pick(1, 2, 5, 8, 16, 17), d.pick(width, width, 3, 8)
    k, v = d.of_type(q, (*batch, columns, width)), d.of_type(q, (*batch, columns, out))
    masks = (None, d.of_type(q, (rows, columns)), d.exactly((rows, columns), "b", torch.bool, "normal"))  # fmt: skip
    mask = d.pick(*masks)
    scale = {"scale": 0.3} if d.chance(0.2) else {}
    d.call("scaled_dot_product_attention.default", q, k, v, mask, 0.0, mask is None and d.chance(0.5), **scale)  # fmt: skip


def quantize(d: Draw, name: str) -> None:
    x, scale, zero = d.any("f", ok=lambda t: t.dtype is torch.float32), d.pick(0.1, 0.05, 0.5), d.pick(0, 3, -7)  # fmt: skip
    if name == "fake_quantize":
        d.call("fake_quantize_per_tensor_affine.default", x, scale, zero, -128, 127)
        return
    of_8_bits = (scale, zero, -128, 127, torch.int8)
    d.call("quantized_decomposed.quantize_per_tensor.default", x, *of_8_bits)
    d.call(
        "quantized_decomposed.dequantize_per_tensor.default",
        Value(d.nodes[-1].results[0]),
        *of_8_bits,
    )


def control(d: Draw, name: str) -> None:
    branches = d.random.sample(("sin", "neg", "tanh", "relu", "abs", "sigmoid"), 2)
    if name == "cond":
        d.call(f"flow.cond.{'.'.join(branches)}", d.any("b"), d.any("f"))
    else:
        d.call(f"flow.while_loop.{branches[0]}", d.pick(0, 1, 3), d.any("f"))


def by_name(names: str, function: Callable[..., None], *more: object) -> dict[str, Operator]:
    def operator(name: str) -> Operator:
        return lambda d: function(d, name, *more)

    return {name: operator(name) for name in names.split()}


OPERATORS: dict[str, Operator] = {
    **unary("f", "exp log sqrt rsqrt sin cos tan tanh sigmoid silu erf floor ceil round trunc reciprocal relu6 softplus elu selu celu mish log1p "
            "expm1 log2 log10 exp2 atan asin acos sinh cosh asinh acosh atanh logit hardtanh hardsigmoid hardswish leaky_relu gelu frac erfc log_sigmoid"),
    **unary("fib", "neg abs relu sign sgn square positive isnan isinf isfinite nan_to_num logical_not clone exp sqrt sigmoid"),
    **unary("ib", "bitwise_not"),
    "gelu_tanh": lambda d: d.call("gelu.default", d.any("f"), approximate="tanh"),
    **by_name("add sub mul div eq ne lt le gt ge remainder fmod pow floor_divide", binary),
    **by_name("maximum minimum atan2 logical_and logical_or logical_xor", binary, "default"),
    **by_name("bitwise_and bitwise_or bitwise_xor", binary, "Tensor", "ib"),
    "add_scaled": lambda d: binary(d, "add", alpha=d.pick(2, -1, 3)),
    "div_rounded": lambda d: binary(d, "div_mode", rounding_mode=d.pick("floor", "trunc")),
    "rsub": lambda d: d.call("rsub.Scalar", x := d.any("fi"), d.scalar(d.at(x))),
    **by_name("bitwise_left_shift bitwise_right_shift", shift),
    **by_name("lerp addcmul addcdiv", lerp),
    "where": where, "clamp": clamp, "masked_fill": masked_fill,
    **{name: lambda d: d.call("_to_copy.default", d.any(), dtype=d.dtype(d.pick(*"ffib"))) for name in ("cast", "cast_again")},
    **by_name("sum", reduction, "dim_IntList", "fib"), **by_name("mean", reduction, "dim", "f"),
    **by_name("amax amin", reduction, "default", "fib"), **by_name("logsumexp", reduction, "default", "f"),
    **by_name("any all", reduction, "dim", "fib", True), **by_name("prod", reduction, "dim_int", "fi", True),
    **by_name("argmax argmin", reduction, "default", "fi", True), **by_name("max min", reduction, "dim", "fi", True),
    "count_nonzero": lambda d: d.call("count_nonzero.dim_IntList", x := d.any(), d.dims(d.at(x))),
    **by_name("var std var_mean", variance), "norm": norm,
    **by_name("cumsum cumprod", along, "fi"), **by_name("logcumsumexp", along, "f"), **by_name("_softmax _log_softmax", along, "f", False),
    **by_name("view reshape", reshape), "roll": roll,
    "permute": lambda d: d.call("permute.default", x := d.any("fib", 1), d.random.sample(range(d.at(x).dim()), d.at(x).dim())),
    "flip": lambda d: d.call("flip.default", x := d.any("fib", 1), d.dims(d.at(x))),
    "unsqueeze": lambda d: d.call("unsqueeze.default", x := d.any(), d.random.randint(-d.at(x).dim() - 1, d.at(x).dim())),
    "squeeze": lambda d: d.call("squeeze.dims", x := d.any("fib", 1), d.dims(d.at(x))),
    "flatten": lambda d: d.call("flatten.using_ints", x := d.any("fib", 1), at := d.random.randrange(d.at(x).dim()), d.random.randrange(at, d.at(x).dim())),
    "pixel_shuffle": lambda d: d.call("pixel_shuffle.default", d.any("f", 3, 4, lambda t: t.shape[-3] % 4 == 0), 2),
    **by_name("transpose.int movedim.int diagonal.default rot90.default tril.default triu.default", two_dims),
    **by_name("expand repeat tile", expand),
    **by_name("slice.Tensor select.int unbind.int unfold.default repeat_interleave.self_int split.Tensor chunk.default", sliced),
    **by_name("cat stack", cat), **by_name("constant_pad reflection_pad replication_pad", pad), **by_name("full_like arange eye", constant),
    "index_select": index_select, "embedding": embedding,
    **by_name("index_add index_copy", index_add), **by_name("index index_put", index), **by_name("slice_scatter select_scatter", slice_scatter),
    **by_name("gather.default scatter.value scatter.src scatter_add.default scatter_reduce.two", scatter),
    **by_name("sort topk argsort", sort),
    **by_name("mm bmm matmul linear addmm baddbmm mv dot outer", product),
    **by_name("conv1d conv2d conv3d conv_transpose1d conv_transpose2d", convolution),
    **by_name("max_pool1d max_pool2d max_pool2d_with_indices avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d", pool),
    **by_name("upsample_nearest2d upsample_bilinear2d", upsample),
    **by_name("layer_norm group_norm batch_norm rms_norm", normalization), "attention": attention,
    **by_name("fake_quantize quantize", quantize), **by_name("cond while_loop", control),
}  # fmt: skip
"""By the name by which pairs are counted."""

OPEN = 0.04
"""Share of the graphs that may have an open size, which torch.export captures in a second."""
ALONE = 4
"""How many graphs of a seed have one operator, by the number of operators."""
BEFORE, AFTER = (0, 0, 1, 2), (0, 0, 0, 1, 1, 2, 3, 6, 20)
"""Further operators of half of the graphs with a pair."""


_BY_WEIGHT = {
    8: "add mm mul sum",
    7: "bmm conv2d addmm linear batch_norm",
    6: "layer_norm relu",
    5: "div _softmax cat cast",
    4: "gelu clone mean",
    3: "constant_pad pow sigmoid silu sub neg index_select unbind.int",
    2: "stack gather scatter_add masked_fill rsub split.Tensor avg_pool2d index leaky_relu hardswish eq where tanh embedding",
}  # fmt: skip
WEIGHTS = {name: weight for weight, names in _BY_WEIGHT.items() for name in names.split()}
"""How often an operator is drawn around a pair (others: 1): log2 of its calls in the traces of models of BackendBench's dataset, divided by 50."""


def draw(seed: int, number: int) -> Graph:
    """Graph `number` of a seed."""
    chooser = random.Random(f"{seed}/{number}")
    names = list(OPERATORS)
    weights = [WEIGHTS.get(name, 1) for name in names]
    while True:
        drawn = Draw(chooser)
        plan = [names[place] for place in places(seed, number, len(names))]
        if len(plan) > 1 and chooser.random() < 0.5:
            before, after = (chooser.choices(names, weights, k=chooser.choice(count)) for count in (BEFORE, AFTER))  # fmt: skip
            plan = [*before, *plan, *after]
        for name in plan:
            if drawn.nodes and drawn.chance(0.8):
                drawn.focus = chooser.choice(drawn.nodes[-1].results)
            _add(drawn, OPERATORS[name])
        if drawn.nodes:
            graph = drawn.graph()
            return _opened(graph, chooser) if chooser.random() < OPEN else graph


def _opened(graph: Graph, chooser: random.Random) -> Graph:
    """The graph with all dimensions of one size open, if eager takes another size there."""
    sizes = sorted({size for i in graph.inputs.values() for size in i.shape if size > 1})
    size = chooser.choice(sizes or [0])
    opened = graph.with_inputs(lambda i: dataclasses.replace(i, open=tuple(a for a, s in enumerate(i.shape) if s == size)))  # fmt: skip
    with contextlib.suppress(*EAGER_ERRORS), torch.no_grad():
        other = opened.resized()
        other(*other.tensors())
        return opened
    return graph


def places(seed: int, number: int, count: int) -> tuple[int, ...]:
    """The places of the operators that graph `number` contains: first each one alone, ALONE times, then all pairs."""
    if number < ALONE * count:
        return (_order(seed, count)[number % count],)
    return divmod(_order(seed, count * count)[number % (count * count)], count)


@functools.lru_cache(4)
def _order(seed: int, count: int) -> list[int]:
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order


def _add(drawn: Draw, operator: Operator) -> None:
    """Add a call of an operator, if arguments for it are found."""
    focus, inputs = drawn.focus, len(drawn.inputs)
    for _ in range(ATTEMPTS // 4):
        with contextlib.suppress(Unsuitable):
            operator(drawn)
            return
        drawn.focus = focus
        for name in [*drawn.inputs][inputs:]:
            del drawn.inputs[name], drawn.values[name]


if __name__ == "__main__":
    print(*OPERATORS, sep="\n")
