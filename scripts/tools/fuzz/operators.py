"""The operators that graphs are made of, and how their arguments are drawn. Each draws a call, or raises Unsuitable."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from scripts.tools.fuzz.generator import Draw, Of, Unsuitable

Operator = Callable[[Draw], None]
OPERATORS: dict[str, Operator] = {}
"""By the name by which pairs are counted."""


def of(*names: str) -> Callable[[Callable[[Draw, str], None]], Callable[[Draw, str], None]]:
    """Register a function for operators that take the same arguments."""

    def register(function: Callable[[Draw, str], None]) -> Callable[[Draw, str], None]:
        for name in names:
            OPERATORS[name] = lambda draw, name=name: function(draw, name)
        return function

    return register


# Elementwise


@of(*"exp log sqrt rsqrt sin cos tan tanh sigmoid silu erf floor ceil round trunc reciprocal relu6 softplus elu selu celu mish log1p".split(),
    *"expm1 log2 log10 exp2 atan asin acos sinh cosh asinh acosh atanh logit hardtanh hardsigmoid hardswish leaky_relu gelu frac erfc log_sigmoid".split())  # fmt: skip
def _(d: Draw, name: str) -> None:
    x = d.any("f" if d.chance(0.9) else "fi")
    d.call(f"{name}.default", x, **({"approximate": "tanh"} if name == "gelu" and d.chance(0.5) else {}))  # fmt: skip


@of("neg", "abs", "relu", "sign", "sgn", "square", "positive", "isnan", "isinf", "isfinite", "nan_to_num", "logical_not", "clone")  # fmt: skip
def _(d: Draw, name: str) -> None:
    d.call(f"{name}.default", d.any())


@of("bitwise_not")
def _(d: Draw, name: str) -> None:
    d.call("bitwise_not.default", d.any("ib"))


@of("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "remainder", "fmod", "pow.Tensor", "floor_divide")  # fmt: skip
def _(d: Draw, name: str) -> None:
    x = d.any()
    is_scalar = d.chance(0.25)
    base, _, suffix = name.partition(".")
    kwargs = {"alpha": d.random.choice((2, -1, 3))} if base in ("add", "sub") and d.chance(0.2) else {}  # fmt: skip
    y: Of | float | int | bool = d.scalar(d.of(x.value)) if is_scalar else d.beside(x)
    overload = "Scalar" if is_scalar else "Tensor"
    if base == "pow":
        overload = "Tensor_Scalar" if is_scalar else "Tensor_Tensor"
    if base == "floor_divide":
        overload = "Scalar" if is_scalar else "default"
    swapped = not is_scalar and not kwargs and d.chance(0.3)
    d.call(f"{base}.{overload}", *((y, x) if swapped else (x, y)), **kwargs)


@of("div_rounded")
def _(d: Draw, name: str) -> None:
    x = d.any("fi")
    mode = d.random.choice(("floor", "trunc"))
    if d.chance(0.3):
        d.call("div.Scalar_mode", x, d.scalar(d.of(x.value)), rounding_mode=mode)
    else:
        d.call("div.Tensor_mode", x, d.beside(x), rounding_mode=mode)


@of("maximum", "minimum", "atan2", "logical_and", "logical_or", "logical_xor")
def _(d: Draw, name: str) -> None:
    x = d.any("fi" if name == "atan2" else "fib")
    d.call(f"{name}.default", x, d.beside(x))


@of("bitwise_and", "bitwise_or", "bitwise_xor")
def _(d: Draw, name: str) -> None:
    x = d.any("ib")
    d.call(f"{name}.Tensor", x, d.beside(x, "ib"))


@of("bitwise_left_shift", "bitwise_right_shift")
def _(d: Draw, name: str) -> None:
    x = d.any("i")
    d.call(f"{name}.Tensor", x, d.of_type(x, d.of(x.value).shape, f"index:{d.random.choice((2, 7))}"))  # fmt: skip


@of("rsub")
def _(d: Draw, name: str) -> None:
    x = d.any("fi")
    d.call("rsub.Scalar", x, d.scalar(d.of(x.value)))


@of("lerp", "addcmul", "addcdiv")
def _(d: Draw, name: str) -> None:
    x = d.any("f")
    y, z = d.beside(x, "f"), d.beside(x, "f")
    if name == "lerp":
        d.call("lerp.Scalar", x, y, d.random.choice((0.25, 0.7, -1.0)))
    else:
        d.call(f"{name}.default", x, y, z, value=d.random.choice((1, 0.5, -2)))


@of("where")
def _(d: Draw, name: str) -> None:
    x = d.any()
    if d.chance(0.3):
        condition, other = d.any("b"), d.beside(x)
        d.call("where.self", condition, x, other)
    else:
        condition = d.exactly(d.of(x.value).shape, "b", torch.bool)
        d.call("where.self", condition, x, d.beside(x))


@of("clamp")
def _(d: Draw, name: str) -> None:
    x = d.any("fi")
    low, high = sorted((d.scalar(d.of(x.value)), d.scalar(d.of(x.value))))
    match d.random.randint(0, 3):
        case 0:
            d.call("clamp.default", x, low, high)
        case 1:
            d.call("clamp.default", x, *d.random.choice(((low,), (None, high))))
        case 2:
            d.call("clamp.Tensor", x, d.beside(x, "fi"), d.beside(x, "fi"))
        case _:
            d.call(f"clamp_{d.random.choice(('min', 'max'))}.default", x, low)


@of("masked_fill")
def _(d: Draw, name: str) -> None:
    x = d.any()
    mask = d.beside(x, "b")
    d.call("masked_fill.Scalar", x, mask, d.random.choice((d.scalar(d.of(x.value)), -math.inf)) if d.of(x.value).is_floating_point() else d.scalar(d.of(x.value)))  # fmt: skip


@of("cast", "cast_again")
def _(d: Draw, name: str) -> None:
    d.call("_to_copy.default", d.any(), dtype=d.dtype(d.random.choice(("f", "i", "b", "f"))))


# Reductions


@of("sum", "mean", "amax", "amin", "any", "all", "logsumexp", "count_nonzero")
def _(d: Draw, name: str) -> None:
    x = d.any("f" if name in ("mean", "logsumexp") else "fib")
    tensor = d.of(x.value)
    keep = d.chance(0.5)
    if name == "count_nonzero":
        d.call("count_nonzero.dim_IntList", x, d.dims(tensor))
        return
    overload = {"sum": "dim_IntList", "mean": "dim", "any": "dims", "all": "dims"}.get(name, "default")  # fmt: skip
    dims = d.dims(tensor)
    kwargs = {"dtype": d.dtype("fi")} if name == "sum" and d.chance(0.2) else {}
    d.call(f"{name}.{overload}", x, dims, keep, **kwargs)


@of("prod", "argmax", "argmin", "max.dim", "min.dim")
def _(d: Draw, name: str) -> None:
    x = d.any("fi", 1, 5, lambda t: t.numel() > 0)
    dim = d.dim(d.of(x.value))
    base, _, overload = name.partition(".")
    overload = overload or {"prod": "dim_int"}.get(base, "default")
    d.call(f"{base}.{overload}", x, dim, d.chance(0.5))


@of("var", "std", "var_mean")
def _(d: Draw, name: str) -> None:
    x = d.any("f", 1, 5, lambda t: t.numel() > 0)
    d.call(f"{name}.correction", x, d.dims(d.of(x.value)), correction=d.random.choice((0, 1)), keepdim=d.chance(0.5))  # fmt: skip


@of("norm")
def _(d: Draw, name: str) -> None:
    x = d.any("f", 1, 5)
    order = d.random.choice((1, 2, 3, 0, math.inf, -math.inf))
    d.call("linalg_vector_norm.default", x, order, d.dims(d.of(x.value)), d.chance(0.5))


@of("cumsum", "cumprod", "softmax", "log_softmax", "logcumsumexp")
def _(d: Draw, name: str) -> None:
    x = d.any("fi" if name.startswith("cum") else "f", 1)
    dim = d.dim(d.of(x.value))
    op = {"softmax": "_softmax", "log_softmax": "_log_softmax"}.get(name, name)
    d.call(f"{op}.default", x, dim, *([False] if op.startswith("_") else []))


# Views and copies


@of("view", "reshape")
def _(d: Draw, name: str) -> None:
    x = d.any()
    tensor = d.of(x.value)
    shape: list[int] = []
    left = tensor.numel()
    while left > 1 and len(shape) < 4 and d.chance(0.8):
        size = d.random.choice([n for n in range(1, min(left, 70) + 1) if left % n == 0])
        shape.append(size)
        left //= size
    shape.append(left)
    d.random.shuffle(shape)
    if d.chance(0.3) and tensor.numel():
        shape[d.random.randrange(len(shape))] = -1
    d.call("view.default" if name == "view" else "reshape.default", x, shape)


@of("permute", "flip", "roll")
def _(d: Draw, name: str) -> None:
    x = d.any("fib", 1)
    tensor = d.of(x.value)
    if name == "permute":
        d.call("permute.default", x, d.random.sample(range(tensor.dim()), tensor.dim()))
    elif name == "flip":
        d.call("flip.default", x, d.dims(tensor))
    else:
        dims = d.dims(tensor)
        d.call("roll.default", x, [d.random.randint(-5, 5) for _ in dims], dims)


@of("transpose", "diagonal")
def _(d: Draw, name: str) -> None:
    x = d.any("fib", 2)
    first, second = d.random.sample(range(d.of(x.value).dim()), 2)
    if name == "transpose":
        d.call("transpose.int", x, first, second)
    else:
        d.call("diagonal.default", x, d.random.randint(-2, 2), first, second)


@of("unsqueeze", "squeeze", "flatten")
def _(d: Draw, name: str) -> None:
    x = d.any("fib", 1)
    tensor = d.of(x.value)
    if name == "unsqueeze":
        d.call("unsqueeze.default", x, d.random.randint(-tensor.dim() - 1, tensor.dim()))
    elif name == "squeeze":
        d.call("squeeze.dims", x, d.dims(tensor))
    else:
        first = d.random.randrange(tensor.dim())
        d.call("flatten.using_ints", x, first, d.random.randrange(first, tensor.dim()))


@of("expand", "repeat", "tile")
def _(d: Draw, name: str) -> None:
    x = d.any("fib", 0, 4)
    shape = list(d.of(x.value).shape)
    more = [d.random.choice((1, 2, 3))] if d.chance(0.4) else []
    if name == "expand":
        sizes = [d.size() if size == 1 else d.random.choice((size, -1)) for size in shape]
        d.call("expand.default", x, [*more, *sizes])
    else:
        d.call(f"{name}.default", x, [*more, *(d.random.choice((1, 1, 2, 3)) for _ in shape)])


@of("slice", "slice_again")
def _(d: Draw, name: str) -> None:
    x = d.any("fib", 1)
    dim = d.dim(d.of(x.value))
    size = d.of(x.value).shape[dim]
    start = d.random.randint(-size, size)
    end = d.random.choice((d.random.randint(-size, size + 2), 2**63 - 1))
    d.call("slice.Tensor", x, dim, start, end, d.random.choice((1, 1, 2, 3)))


@of("select", "unbind", "split", "chunk", "unfold", "repeat_interleave")
def _(d: Draw, name: str) -> None:
    x = d.any("fib", 1)
    dim = d.dim(d.of(x.value))
    size = d.of(x.value).shape[dim]
    if name == "select":
        d.call("select.int", x, dim, d.random.randrange(-size, max(1, size)))
    elif name == "unbind":
        if size > 5:
            raise Unsuitable
        d.call("unbind.int", x, dim)
    elif name == "unfold":
        d.call("unfold.default", x, dim, d.random.randint(1, max(1, size)), d.random.randint(1, 3))
    elif name == "repeat_interleave":
        d.call("repeat_interleave.self_int", x, d.random.randint(1, 3), dim)
    elif name == "split":
        least = max(1, -(-size // 4))
        d.call("split.Tensor", x, d.random.randint(least, max(least, size)), dim)
    else:
        d.call("chunk.default", x, d.random.randint(1, 4), dim)


@of("cat", "stack")
def _(d: Draw, name: str) -> None:
    x = d.any("fib", 0 if name == "stack" else 1, 4)
    tensor = d.of(x.value)
    dim = d.random.randrange(-tensor.dim() - 1, tensor.dim() + 1) if name == "stack" else d.dim(tensor)  # fmt: skip
    parts = [x]
    for _ in range(d.random.randint(1, 3)):
        shape = list(tensor.shape)
        if name == "cat":
            shape[dim] = d.size(0)
        parts.append(d.of_type(x, shape) if d.chance(0.8) else d.exactly(shape, "fib"))
    d.random.shuffle(parts)
    d.call(f"{name}.default", parts, dim)


@of("constant_pad", "reflection_pad", "replication_pad")
def _(d: Draw, name: str) -> None:
    if name == "constant_pad":
        x = d.any("fib", 1)
        count = d.random.randint(1, d.of(x.value).dim())
        pads = [d.random.randint(-1, 3) for _ in range(2 * count)]
        d.call("constant_pad_nd.default", x, pads, d.scalar(d.of(x.value)))
        return
    rank = d.random.choice((1, 2))
    x = d.any("f", rank + 1, rank + 2, lambda t: t.numel() > 0)
    d.call(f"{name}{rank}d.default", x, [d.random.randint(0, 3) for _ in range(2 * rank)])


@of("tril", "triu", "pixel_shuffle", "rot90", "movedim")
def _(d: Draw, name: str) -> None:
    if name == "pixel_shuffle":
        x = d.any("f", 3, 4, lambda t: t.shape[-3] % 4 == 0)
        d.call("pixel_shuffle.default", x, 2)
        return
    x = d.any("fib", 2)
    if name == "rot90":
        d.call("rot90.default", x, d.random.randint(0, 3), d.random.sample(range(d.of(x.value).dim()), 2))  # fmt: skip
    elif name == "movedim":
        d.call("movedim.int", x, d.dim(d.of(x.value)), d.dim(d.of(x.value)))
    else:
        d.call(f"{name}.default", x, d.random.randint(-3, 3))


@of("full_like", "arange", "eye")
def _(d: Draw, name: str) -> None:
    if name == "full_like":
        x = d.any()
        d.call("full_like.default", x, d.scalar(d.of(x.value)))
    elif name == "arange":
        kwargs = {"dtype": d.dtype("fi")} if d.chance(0.5) else {}
        d.call("arange.start_step", d.random.randint(-3, 3), d.random.randint(4, 20), d.random.choice((1, 2, 3)), **kwargs)  # fmt: skip
    else:
        d.call("eye.m", d.random.choice((1, 3, 8)), d.random.choice((2, 3, 5)), dtype=d.dtype("fi"))


# Indices


@of("index_select", "embedding")
def _(d: Draw, name: str) -> None:
    if name == "embedding":
        x = d.any("f", 2, 2, lambda t: t.shape[0] > 0)
        ids = d.exactly(d.shape(1, 2), "i", torch.int64, f"index:{d.of(x.value).shape[0]}")
        d.call("embedding.default", x, ids)
        return
    x = d.any("fib", 1)
    dim = d.dim(d.of(x.value))
    size = d.of(x.value).shape[dim]
    kind = d.random.choice((torch.int64, torch.int32))
    d.call("index_select.default", x, dim, d.exactly((d.size(),), "i", kind, f"index:{size}"))


@of("gather", "scatter", "scatter_add", "scatter_reduce", "scatter_value", "index_add", "index_copy")  # fmt: skip
def _(d: Draw, name: str) -> None:
    x = d.any("fib" if name in ("gather", "scatter") else "fi", 1, 4, lambda t: t.numel() > 0)
    tensor = d.of(x.value)
    dim = d.random.randrange(tensor.dim())
    size = tensor.shape[dim]
    if name.startswith("index"):
        count = d.random.randint(1, size)
        ids = d.exactly((count,), "i", torch.int64, f"{'once' if name == 'index_copy' else 'index'}:{size}")  # fmt: skip
        source = d.of_type(x, [*tensor.shape[:dim], count, *tensor.shape[dim + 1 :]])
        d.call(f"{name}.default", x, dim, ids, source)
        return
    shape = [d.random.randint(1, n) for n in tensor.shape]
    if name == "gather":
        shape[dim] = d.size()
    once = name in ("scatter", "scatter_value")
    if once and dim:  # indices without repetition are drawn along the first dimension
        raise Unsuitable
    ids = d.exactly(shape, "i", torch.int64, f"{'once' if once else 'index'}:{size}")
    if name == "gather":
        d.call("gather.default", x, dim, ids)
    elif name == "scatter_value":
        d.call("scatter.value", x, dim, ids, d.scalar(tensor))
    elif name == "scatter":
        d.call("scatter.src", x, dim, ids, d.of_type(x, shape))
    elif name == "scatter_add":
        d.call("scatter_add.default", x, dim, ids, d.of_type(x, shape))
    else:
        reduce = d.random.choice(("sum", "prod", "amax", "amin", "mean"))
        d.call("scatter_reduce.two", x, dim, ids, d.of_type(x, shape), reduce, include_self=d.chance(0.6))  # fmt: skip


@of("index", "index_put")
def _(d: Draw, name: str) -> None:
    x = d.any("fib", 1, 4, lambda t: t.numel() > 0)
    tensor = d.of(x.value)
    count = d.random.randint(1, min(2, tensor.dim()))
    places = sorted(d.random.sample(range(tensor.dim()), count))
    shape = (d.random.choice((1, 2, 3, 5)),) if d.chance(0.7) else (2, 3)
    indices: list[Of | None] = [None] * (places[-1] + 1)
    for place in places:
        indices[place] = d.exactly(shape, "i", torch.int64, f"index:{tensor.shape[place]}")
    if name == "index":
        d.call("index.Tensor", x, indices)
        return
    made = tensor[tuple(slice(None) if i is None else d.of(i.value) for i in indices)]
    accumulate = tensor.dtype != torch.bool
    values = d.of_type(x, made.shape if d.chance(0.7) else [1] * made.dim())
    d.call("index_put.default", x, indices, values, accumulate)


@of("slice_scatter", "select_scatter")
def _(d: Draw, name: str) -> None:
    x = d.any("fib", 1, 4, lambda t: t.numel() > 0)
    tensor = d.of(x.value)
    dim = d.dim(tensor)
    size = tensor.shape[dim]
    if name == "select_scatter":
        at = d.random.randrange(size)
        d.call("select_scatter.default", x, d.of_type(x, tensor.select(dim, at).shape), dim, at)
        return
    start, step = d.random.randrange(size), d.random.choice((1, 1, 2))
    end = d.random.randint(start + 1, size)
    shape = list(tensor.shape)
    shape[dim] = len(range(start, end, step))
    d.call("slice_scatter.default", x, d.of_type(x, shape), dim, start, end, step)


@of("sort", "topk", "argsort")
def _(d: Draw, name: str) -> None:
    x = d.any("fi", 1, 4, lambda t: t.numel() > 0)
    dim, down = d.dim(d.of(x.value)), d.chance(0.5)
    if name == "sort":
        d.call("sort.stable", x, stable=True, dim=dim, descending=down)
    elif name == "argsort":
        d.call("argsort.stable", x, stable=True, dim=dim, descending=down)
    else:
        d.call("topk.default", x, d.random.randint(1, d.of(x.value).shape[dim]), dim, down)


# Products, convolutions, windows


@of("mm", "bmm", "matmul", "linear", "addmm", "baddbmm")
def _(d: Draw, name: str) -> None:
    kinds = "f" if d.chance(0.85) else "fi"
    if name == "matmul":
        x = d.any(kinds, 1, 4)
    elif name == "linear":
        x = d.any(kinds, 1, 4)
    else:
        rank = 3 if "bmm" in name else 2
        x = d.any(kinds, rank, rank)
    left = d.of(x.value).shape
    columns = d.size()
    if name == "linear":
        weight = d.of_type(x, (columns, left[-1]))
        d.call("linear.default", x, weight, *([d.of_type(x, (columns,))] if d.chance(0.5) else []))
        return
    if name == "matmul":
        batch = [n if d.chance(0.7) else 1 for n in left[:-2]][d.random.randint(0, max(0, len(left) - 2)) :]  # fmt: skip
        shape = [*batch, left[-1], columns] if d.chance(0.8) else [left[-1]]
        d.call("matmul.default", x, d.of_type(x, shape))
        return
    y = d.of_type(x, [*left[:-2], left[-1], columns])
    if name in ("mm", "bmm"):
        d.call(f"{name}.default", x, y)
        return
    bias = d.of_type(x, [columns] if d.chance(0.5) else [*left[:-1], columns])
    scales = {"beta": d.random.choice((0.5, 2)), "alpha": d.random.choice((0.5, -1))} if d.chance(0.3) and d.of(x.value).is_floating_point() else {}  # fmt: skip
    d.call(f"{name}.default", bias, x, y, **scales)


@of("mv", "dot", "outer")
def _(d: Draw, name: str) -> None:
    rank = 2 if name == "mv" else 1
    x = d.any("f" if d.chance(0.8) else "fi", rank, rank)
    size = d.of(x.value).shape[-1]
    d.call(f"{name}.default", x, d.of_type(x, (d.size() if name == "outer" else size,)))


@of("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d")
def _(d: Draw, name: str) -> None:
    rank, transposed = int(name[-2]), "transpose" in name
    x = d.any("f", rank + 2, rank + 2, lambda t: t.numel() > 0 and t.shape[1] <= 16)
    tensor = d.of(x.value)
    channels = tensor.shape[1]
    groups = d.random.choice([n for n in range(1, channels + 1) if channels % n == 0]) if d.chance(0.4) else 1  # fmt: skip
    per_group = d.random.choice((1, 2, 3, 4))
    kernel = [d.random.choice((1, 2, 3, 3, 4)) for _ in range(rank)]
    stride = [d.random.choice((1, 1, 2, 3)) for _ in range(rank)]
    padding = [d.random.choice((0, 0, 1, 2)) for _ in range(rank)]
    dilation = [d.random.choice((1, 1, 2)) for _ in range(rank)]
    shape = (channels, per_group) if transposed else (per_group * groups, channels // groups)
    weight = d.of_type(x, [*shape, *kernel])
    bias = d.of_type(x, (per_group * groups,)) if d.chance(0.5) else None
    extra = [d.random.randint(0, s - 1) if d.chance(0.3) else 0 for s in stride] if transposed else [0] * rank  # fmt: skip
    d.call("convolution.default", x, weight, bias, stride, padding, dilation, transposed, extra, groups)  # fmt: skip


@of("max_pool2d", "avg_pool2d", "max_pool1d", "avg_pool1d", "max_pool2d_with_indices", "adaptive_avg_pool2d", "avg_pool3d")  # fmt: skip
def _(d: Draw, name: str) -> None:
    rank = int(name[name.index("d") - 1]) if not name.startswith("adaptive") else 2
    x = d.any("f", rank + 2, rank + 2, lambda t: t.numel() > 0)
    if name.startswith("adaptive"):
        sizes = [d.random.choice((1, 1, n, max(1, n // 2), 2)) for n in d.of(x.value).shape[2:]]
        d.call("_adaptive_avg_pool2d.default", x, sizes)
        return
    kernel = [d.random.choice((1, 2, 2, 3)) for _ in range(rank)]
    stride = [d.random.choice((1, 2, 3)) for _ in range(rank)]
    padding = [d.random.randint(0, k // 2) for k in kernel]
    ceil = d.chance(0.3)
    if name.startswith("max"):
        d.call(f"{name}.default", x, kernel, stride, padding, [d.random.choice((1, 1, 2)) for _ in kernel], ceil)  # fmt: skip
    else:
        d.call(f"{name}.default", x, kernel, stride, padding, ceil, d.chance(0.5))


@of("upsample_nearest2d", "upsample_bilinear2d")
def _(d: Draw, name: str) -> None:
    x = d.any("f", 4, 4, lambda t: t.numel() > 0)
    sizes = [d.random.choice((1, 2, 3, n, 2 * n, n + 1)) for n in d.of(x.value).shape[2:]]
    d.call(f"{name}.default", x, sizes, *([d.chance(0.5)] if "bilinear" in name else []))


@of("layer_norm", "group_norm", "batch_norm", "rms_norm")
def _(d: Draw, name: str) -> None:
    x = d.any("f", 2, 4, lambda t: t.numel() > 0)
    shape = d.of(x.value).shape
    if name in ("layer_norm", "rms_norm"):
        own = list(shape[-d.random.randint(1, len(shape) - 1) :])
        weights = [d.of_type(x, own)] if name == "rms_norm" else [d.of_type(x, own), d.of_type(x, own)]  # fmt: skip
        d.call(f"{name}.default", x, own, *(weights if d.chance(0.6) else []))
    elif name == "group_norm":
        groups = d.random.choice([n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
        d.call("group_norm.default", x, groups, d.of_type(x, (shape[1],)), d.of_type(x, (shape[1],)))  # fmt: skip
    else:
        stats = [d.of_type(x, (shape[1],), rule) for rule in ("normal", "normal", "normal", "positive")]  # fmt: skip
        d.call("_native_batch_norm_legit_no_training.default", x, *stats, 0.1, 1e-5)


@of("attention")
def _(d: Draw, name: str) -> None:
    q = d.any("f", 3, 4, lambda t: t.numel() > 0 and t.shape[-1] <= 64 and t.shape[-2] <= 64)
    *batch, rows, width = d.of(q.value).shape
    columns, out = d.random.choice((1, 2, 5, 8, 16, 17)), d.random.choice((width, width, 3, 8))
    k, v = d.of_type(q, (*batch, columns, width)), d.of_type(q, (*batch, columns, out))
    mask, causal = None, False
    match d.random.randint(0, 3):
        case 0:
            mask = d.of_type(q, (rows, columns))
        case 1:
            mask = d.exactly((rows, columns), "b", torch.bool, "normal")
        case 2:
            causal = True
    scale = {"scale": 0.3} if d.chance(0.2) else {}
    d.call("scaled_dot_product_attention.default", q, k, v, mask, 0.0, causal, **scale)


# Numbers of few bits, as quantised models have


@of("fake_quantize", "quantize")
def _(d: Draw, name: str) -> None:
    x = d.any("f", ok=lambda t: t.dtype is torch.float32)
    scale, zero = d.random.choice((0.1, 0.05, 0.5)), d.random.choice((0, 3, -7))
    if name == "fake_quantize":
        d.call("fake_quantize_per_tensor_affine.default", x, scale, zero, -128, 127)
        return
    d.call("quantized_decomposed.quantize_per_tensor.default", x, scale, zero, -128, 127, torch.int8)  # fmt: skip
    d.call("quantized_decomposed.dequantize_per_tensor.default", Of(len(d.values) - 1), scale, zero, -128, 127, torch.int8)  # fmt: skip


