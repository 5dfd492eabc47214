"""The operators that graphs are made of, and how their arguments are drawn: by the types and names in the schemas of operators."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import operator
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from scripts.tools.fuzz.generator import ATTEMPTS, EAGER_ERRORS, Draw, Graph, Unsuitable

Operator = Callable[[Draw], object]
"""Adds a call, or raises Unsuitable."""
Rule = Callable[[Draw, torch.Tensor, "Arguments"], Any]
"""Draws an argument, by the main tensor of the call and its other arguments."""
MAIN = ("mat1", "batch1", "self", "input", "query", "weight")
"""The main tensor of a call, by which the others are drawn: the first of these arguments that an operator has."""
INDEX = torch.int64


class Arguments(dict[str, Any]):
    """The arguments of a call, by name. Reading one that is not drawn yet draws it, by its rule."""

    def __init__(self, d: Draw, main: str, x: torch.Tensor, rules: Mapping[str, Any]) -> None:
        super().__init__({main: x})
        self.main, self._draw, self._x, self._rules = main, d, x, rules

    def __missing__(self, name: str) -> Any:
        rule = self._rules[name]
        self[name] = value = rule(self._draw, self._x, self) if callable(rule) else rule
        return value


def calls(
    overloads: str, kinds: str = "fib", low: int = 0, high: int = 5, ok: Callable[[torch.Tensor], bool] = lambda _: True, **own: Any
) -> Operator:  # fmt: skip
    """How a call of one of the overloads is drawn: its main tensor has one of these kinds (Draw.dtype), and a rank from `low` to `high`. `own`: values and rules of arguments,
    before those of RULES. An argument that has none keeps its default."""

    @functools.cache
    def signature(overload: str) -> tuple[str, list[str], int, dict[str, Any]]:
        """The main argument, those to draw, how many are passed by position, and the rules."""
        arguments = operator.attrgetter(overload)(torch.ops.aten)._schema.arguments
        rules = {a.name: rule for a in arguments if (rule := rule_of(a)) is not None} | own
        names = [a.name for a in arguments if a.name in rules]
        positional = [a.name for a in arguments if not a.kwarg_only]
        main = next(name for name in MAIN if name in names)
        return main, names, sum(map(operator.eq, names, positional)), RULES | rules

    def call(d: Draw) -> None:
        overload = d.pick(*overloads.split())
        overload += "" if "." in overload else ".default"
        main, names, first, rules = signature(overload)
        kind = d.pick(*kinds.split())
        drawn = Arguments(d, main, d.any(kind, low, high, ok), {**rules, "kinds": kind})
        values = {name: drawn[name] for name in names} | drawn  # `beside` may change the main one
        named = {name: v for name in names[first:] if (v := values[name]) is not None}
        d.call(overload, *(values[name] for name in names[:first]), **named)

    return call


def rule_of(argument: Any) -> Any:
    """The rule of an argument of a schema, or None."""
    words = re.findall(r"\w+", str(argument.type))
    kind = words[-1] + "[]" * ("List" in words)
    otherwise = None if argument.has_default_value() else RULES.get(kind)
    return RULES.get(f"{kind} {argument.name}", otherwise)


def each(names: str, *more: Any, **own: Any) -> dict[str, Operator]:
    """Operators with the same rules. A name may have an overload."""
    return {name.partition(".")[0]: calls(name, *more, **own) for name in names.split()}


def binary(names: str, *more: Any, **own: Any) -> dict[str, Operator]:
    """Operators of two tensors, or at times of a tensor and a number."""
    return {name: calls(f"{name}.Tensor {name}.Tensor {name}.Tensor {name}.Scalar", *more, **own) for name in names.split()}  # fmt: skip


def coin(d: Draw, x: torch.Tensor, a: Arguments) -> bool:
    return d.chance(0.5)


def full(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0


def beside(d: Draw, x: torch.Tensor, a: Arguments) -> torch.Tensor:
    """A tensor that broadcasts with the main one, before or after it."""
    pair = [x, d.beside(x, a["kinds"])]
    d.shuffle(pair)
    a[a.main], other = pair
    return other


def other_shape(d: Draw, x: torch.Tensor, a: Arguments) -> list[int]:
    """Another shape of as many elements."""
    left, shape = x.numel(), list[int]()
    while left > 1 and len(shape) < 4 and d.chance(0.8):
        shape.append(divisor(d, left))
        left //= shape[-1]
    shape.append(left)
    d.shuffle(shape)
    if d.chance(0.3) and x.numel():
        shape[d.randrange(len(shape))] = -1
    return shape


def divisor(d: Draw, number: int) -> int:
    return d.pick(*[n for n in range(1, min(number, 70) + 1) if number % n == 0])


def index_lists(d: Draw, x: torch.Tensor, a: Arguments) -> list[torch.Tensor | None]:
    """Indices of one shape for one or two dimensions."""
    places = d.sample(range(x.dim()), d.randint(1, min(2, x.dim())))
    shape, sizes = d.pick((2,), (3,), (5,), (2, 3)), enumerate(x.shape[: max(places) + 1])
    return [d.exactly(shape, INDEX, f"index:{size}") if dim in places else None for dim, size in sizes]  # fmt: skip


def chosen(d: Draw, x: torch.Tensor, a: Arguments) -> torch.Tensor:
    """Values for the elements that indices choose, or one for all."""
    shape = torch.ops.aten.index(x, a["indices"]).shape
    return d.like(x, shape if d.chance(0.7) else [1] * len(shape))


def of_matmul(d: Draw, x: torch.Tensor, a: Arguments) -> torch.Tensor:
    batch = [n if d.chance(0.7) else 1 for n in x.shape[:-2]]
    shape = [*batch[d.randint(0, len(batch)) :], x.shape[-1], d.size()]
    return d.like(x, shape if d.chance(0.8) else x.shape[-1:])


def added(d: Draw, x: torch.Tensor, a: Arguments) -> torch.Tensor:
    """What is added to a product of matrices."""
    width = a["mat2" if x.dim() == 2 else "batch2"].shape[-1]
    return d.like(x, [width] if d.chance(0.5) else [*x.shape[:-1], width])


def kernel(d: Draw, x: torch.Tensor, a: Arguments) -> torch.Tensor:
    """The weight of a convolution."""
    filters, groups = a["filters"], a["groups"]
    shape = (x.shape[1], filters) if a["transposed"] else (filters * groups, x.shape[1] // groups)
    return d.like(x, [*shape, *(d.pick(1, 2, 3, 3, 4) for _ in x.shape[2:])])


def channels(d: Draw, x: torch.Tensor, a: Arguments) -> torch.Tensor:
    return d.like(x, x.shape[1:2])


def weights(d: Draw, x: torch.Tensor, a: Arguments) -> torch.Tensor | None:
    """For the dimensions that are normalized: both weight and bias, or none."""
    return d.like(x, a["normalized_shape"]) if a["has_weights"] else None


def join(d: Draw, name: str) -> None:
    x = d.any("fib", 0 if name == "stack" else 1, 4)
    dim = d.randint(-x.dim() - 1, x.dim()) if name == "stack" else d.dim(x)
    parts = [x]
    for _ in range(d.randint(1, 3)):
        shape = list(x.shape)
        if name == "cat":
            shape[dim] = d.size(0)
        parts.append(d.exactly(shape, x.dtype if d.chance(0.8) else d.dtype("fib")))
    d.shuffle(parts)
    d.call(f"{name}.default", parts, dim)


def quantize(d: Draw) -> None:
    x = d.any("f", ok=lambda t: t.dtype is torch.float32)
    how = (d.pick(0.1, 0.05, 0.5), d.pick(0, 3, -7), -128, 127, torch.int8)
    (quantized,) = d.call("quantized_decomposed.quantize_per_tensor.default", x, *how)
    d.call("quantized_decomposed.dequantize_per_tensor.default", quantized, *how)


def flow(d: Draw, name: str) -> None:
    branches = d.sample(("sin", "neg", "tanh", "relu", "abs", "sigmoid"), 2)
    if name == "cond":
        d.call(f"flow.cond.{'.'.join(branches)}", d.any("b"), d.any("f"))
    else:
        d.call(f"flow.while_loop.{branches[0]}", d.pick(0, 1, 3), d.any("f"))


RULES: dict[str, Any] = {
    "Tensor": beside,
    "number": lambda d, x, a: d.scalar(x),
    "bool": coin,
    **{f"bool {name}": coin for name in ("keepdim", "descending", "largest", "ceil_mode", "count_include_pad", "include_self")},
    "bool half_to_float": False,
    "bool accumulate": lambda d, x, a: x.dtype != torch.bool,
    **dict.fromkeys(("int dim", "int dimension"), lambda d, x, a: d.dim(x)),
    **dict.fromkeys(("int[] dim", "int[] dims"), lambda d, x, a: d.dims(x)),
    **dict.fromkeys(("int dim0", "int source"), lambda d, x, a: a["pair"][0]),
    **dict.fromkeys(("int dim1", "int destination"), lambda d, x, a: a["pair"][1]),
    "int start_dim": lambda d, x, a: d.randrange(x.dim()),
    "int end_dim": lambda d, x, a: d.randrange(a["start_dim"], x.dim()),
    "int[] shifts": lambda d, x, a: [d.randint(-5, 5) for _ in a["dims"]],
    "int diagonal": lambda d, x, a: d.randint(-3, 3),
    "int offset": lambda d, x, a: d.randint(-2, 2),
    "int k": lambda d, x, a: d.randint(1, a["length"]),
    "int start": lambda d, x, a: d.randint(-a["length"], a["length"]),
    "int end": lambda d, x, a: d.pick(d.randint(-a["length"], a["length"] + 2), 2**63 - 1),
    "int step": lambda d, x, a: d.pick(1, 1, 2, 3),
    "int index": lambda d, x, a: d.randrange(-a["length"], max(1, a["length"])),
    "int size": lambda d, x, a: d.randint(1, max(1, x.shape[a["dimension"]])),
    "int split_size": lambda d, x, a: d.randint(max(1, -(-a["length"] // 4)), max(1, a["length"])),
    "int chunks": lambda d, x, a: d.randint(1, 4),
    "int repeats": lambda d, x, a: d.randint(1, 3),
    "int[] repeats": lambda d, x, a: [d.pick(1, 1, 2, 3) for _ in range(x.dim() + d.chance(0.4))],
    **dict.fromkeys(("int[] size", "int[] shape"), other_shape),
    "int[] pad": lambda d, x, a: [d.randint(-1, 3) for _ in range(2 * d.randint(1, x.dim()))],
    "int upscale_factor": 2,
    "number min": lambda d, x, a: d.pick(None, d.scalar(x)),
    "number max": lambda d, x, a: d.scalar(x) if a["min"] is None else d.pick(None, max(a["min"], d.scalar(x))),
    **dict.fromkeys(("Tensor min", "Tensor max"), beside),
    # Capturing refuses the largest and the least of nothing, even where no result needs it.
    "number ord": lambda d, x, a: d.pick(1, 2, 3, 0, *((math.inf, -math.inf) if x.numel() else ())),
    "number correction": lambda d, x, a: d.pick(0, 1),
    "str rounding_mode": lambda d, x, a: d.pick("floor", "trunc"),
    "Tensor condition": lambda d, x, a: d.any("b") if d.chance(0.3) else d.exactly(x.shape, torch.bool),
    "Tensor mask": lambda d, x, a: d.beside(x, "b"),
    "Tensor index": lambda d, x, a: d.exactly(a["index_shape"], a["index_type"], f"{a['index_rule']}:{a['length']}"),
    "Tensor src": lambda d, x, a: d.like(x, a["index"].shape),
    "Tensor source": lambda d, x, a: d.like(x, x.index_select(a["dim"], a["index"]).shape),
    "Tensor[] indices": index_lists,
    "Tensor values": chosen,
    "str reduce": lambda d, x, a: d.pick("sum", "prod", "amax", "amin", "mean"),
    **dict.fromkeys(("Tensor mat2", "Tensor batch2"), lambda d, x, a: d.like(x, [*x.shape[:-2], x.shape[-1], d.size()])),
    "Tensor vec": lambda d, x, a: d.like(x, x.shape[-1:]),
    "Tensor vec2": lambda d, x, a: d.like(x, (d.size(),)),
    "Tensor tensor": lambda d, x, a: d.like(x, x.shape),
    "int[] kernel_size": lambda d, x, a: [d.pick(1, 2, 2, 3) for _ in x.shape[2:]],
    "int[] stride": lambda d, x, a: [d.pick(1, 1, 2, 3) for _ in x.shape[2:]],
    "int[] dilation": lambda d, x, a: [d.pick(1, 1, 2) for _ in x.shape[2:]],
    "int[] padding": lambda d, x, a: [d.randint(0, k // 2) for k in a["kernel_size"]],
    "int[] output_padding": lambda d, x, a: [d.randint(0, s - 1) if a["transposed"] and d.chance(0.3) else 0 for s in a["stride"]],
    "int[] output_size": lambda d, x, a: [d.pick(1, 2, 3, n, 2 * n, n + 1, max(1, n // 2)) for n in x.shape[2:]],
    "int groups": lambda d, x, a: divisor(d, x.shape[1]) if d.chance(0.4) else 1,
    "int[] normalized_shape": lambda d, x, a: list(x.shape[d.randint(1, x.dim() - 1) :]),
    "int num_groups": lambda d, x, a: divisor(d, x.shape[1]),
    "Tensor running_mean": channels,
    "Tensor running_var": lambda d, x, a: d.like(x, x.shape[1:2], "positive"),
    "Tensor key": lambda d, x, a: d.like(x, (*x.shape[:-2], d.pick(1, 2, 5, 8, 16, 17), x.shape[-1])),
    "Tensor value": lambda d, x, a: d.like(x, (*a["key"].shape[:-1], d.pick(x.shape[-1], x.shape[-1], 3, 8))),
    "Tensor attn_mask": lambda d, x, a: d.pick(None, d.exactly((x.shape[-2], a["key"].shape[-2]), d.pick(x.dtype, torch.bool))),
    "bool is_causal": lambda d, x, a: a["attn_mask"] is None and d.chance(0.5),
    "float dropout_p": 0.0,
    "int zero_point": lambda d, x, a: d.pick(0, 3, -7),
    "int quant_min": -128,
    "int quant_max": 127,
    # What several arguments depend on:
    "pair": lambda d, x, a: d.sample(range(x.dim()), 2),
    "length": lambda d, x, a: x.shape[a["dim"]],
    "index_shape": lambda d, x, a: [d.randint(1, size) for size in x.shape],
    "index_type": INDEX,
    "index_rule": "index",
    "has_weights": coin,
    "filters": lambda d, x, a: d.pick(1, 2, 3, 4),
}  # fmt: skip
"""How arguments are drawn, by type and name, or by type alone if they have no default."""
TO_NUMBER = "f f f f f fi"

OPERATORS: dict[str, Operator] = {
    **each("log rsqrt sin cos tan tanh silu erf floor ceil round trunc reciprocal relu6 softplus elu selu celu mish log1p "
           "expm1 log2 log10 exp2 atan asin acos sinh cosh asinh acosh atanh logit hardtanh hardsigmoid hardswish leaky_relu gelu frac erfc log_sigmoid", "f"),
    **each("neg abs relu sign sgn square positive isnan isinf isfinite nan_to_num logical_not clone exp sqrt sigmoid full_like"),
    **each("bitwise_not", "ib"),
    "gelu_tanh": calls("gelu", "f", approximate="tanh"),
    **binary("add sub mul div eq ne lt le gt ge remainder fmod"),
    **binary("bitwise_and bitwise_or bitwise_xor", "ib"),
    **each("maximum minimum atan2 logical_and logical_or logical_xor where.self"),
    "pow": calls("pow.Tensor_Tensor pow.Tensor_Tensor pow.Tensor_Tensor pow.Tensor_Scalar"),
    "floor_divide": calls("floor_divide floor_divide floor_divide floor_divide.Scalar"),
    "add_scaled": calls("add.Tensor add.Tensor add.Scalar", alpha=lambda d, x, a: d.pick(2, -1, 3)),
    "div_rounded": calls("div.Tensor_mode div.Tensor_mode div.Scalar_mode"),
    **each("rsub.Scalar", "fi"),
    **each("bitwise_left_shift.Tensor bitwise_right_shift.Tensor", "i", other=lambda d, x, a: d.like(x, x.shape, f"index:{d.pick(2, 7)}")),
    **each("lerp.Scalar", "f", weight=lambda d, x, a: d.pick(1, 0.5, -2)),
    **each("addcmul addcdiv", "f", value=lambda d, x, a: d.pick(1, 0.5, -2)),
    "clamp": calls("clamp clamp clamp.Tensor", "fi"),
    **each("masked_fill.Scalar", value=lambda d, x, a: d.pick(d.scalar(x), -math.inf if x.is_floating_point() else d.scalar(x))),
    **dict.fromkeys(("cast", "cast_again"), calls("_to_copy", dtype=lambda d, x, a: d.dtype(d.pick(*"ffib")))),
    **each("sum.dim_IntList", "fib", 1, dtype=lambda d, x, a: d.dtype("fi") if d.chance(0.2) else None),
    **each("amax amin", "fib", 1), **each("count_nonzero.dim_IntList"),
    **each("mean.dim logsumexp linalg_vector_norm", "f", 1),
    **each("any.dim all.dim", "fib", 1, 5, full), **each("prod.dim_int argmax argmin max.dim min.dim", "fi", 1, 5, full),
    **each("var.correction std.correction var_mean.correction", "f", 1, 5, full),
    **each("cumsum cumprod", "fi", 1), **each("logcumsumexp _softmax _log_softmax", "f", 1),
    **each("view reshape repeat"),
    **each("roll flip squeeze.dims flatten.using_ints", "fib", 1),
    **each("constant_pad_nd", "fib", 1, value=RULES["number"]),
    **each("permute", "fib", 1, dims=lambda d, x, a: d.sample(range(x.dim()), x.dim())),
    **each("unsqueeze", dim=lambda d, x, a: d.randint(-x.dim() - 1, x.dim())),
    **each("pixel_shuffle", "f", 3, 4, lambda t: t.shape[-3] % 4 == 0),
    **each("transpose.int movedim.int tril triu", "fib", 2),
    **each("diagonal", "fib", 2, dim1=RULES["int dim0"], dim2=RULES["int dim1"]),
    **each("rot90", "fib", 2, k=lambda d, x, a: d.randint(0, 3), dims=lambda d, x, a: a["pair"]),
    **each("expand", "fib", 0, 4,
           size=lambda d, x, a: [d.pick(1, 2, 3)] * d.chance(0.4) + [d.size() if n == 1 else d.pick(n, -1) for n in x.shape]),
    **each("tile", "fib", 0, 4, dims=RULES["int[] repeats"]),
    **each("slice.Tensor select.int unfold repeat_interleave.self_int split.Tensor chunk", "fib", 1),
    **each("unbind.int", "fib", 1, 5, lambda t: min(t.shape) <= 5),
    "cat": lambda d: join(d, "cat"),
    "stack": lambda d: join(d, "stack"),
    **each("reflection_pad1d replication_pad1d", "f", 2, 3, full, padding=lambda d, x, a: [d.randint(0, 3), d.randint(0, 3)]),
    **each("reflection_pad2d replication_pad2d", "f", 3, 4, full, padding=lambda d, x, a: [d.randint(0, 3) for _ in range(4)]),
    # PyTorch/XLA makes constants on its device if they name one, as those of torch.export do.
    "arange": lambda d: d.call("arange.start_step", d.randint(-3, 3), d.randint(4, 20), d.pick(1, 2, 3), dtype=d.pick(None, d.dtype("fi")), device="cpu"),
    "eye": lambda d: d.call("eye.m", d.pick(1, 3, 8), d.pick(2, 3, 5), dtype=d.pick(None, d.dtype("fi")), device="cpu"),
    **each("index_select", "fib", 1, index_shape=lambda d, x, a: (d.size(),), index_type=lambda d, x, a: d.pick(INDEX, torch.int32)),
    **each("embedding", "f", 2, 2, full, indices=RULES["Tensor index"], index_shape=lambda d, x, a: d.shape(1, 2), dim=0),
    **{name: calls(name, "fi", 1, 4, full, index_shape=lambda d, x, a: (d.randint(1, a["length"]),), index_rule=rule)
       for name, rule in (("index_add", "index"), ("index_copy", "once"))},
    **each("index.Tensor index_put", "fib", 1, 4, full),
    **each("slice_scatter", "fib", 1, 4, full,
           src=lambda d, x, a: d.like(x, torch.ops.aten.slice(x, a["dim"], a["start"], a["end"], a["step"]).shape)),
    **each("select_scatter", "fib", 1, 4, full, src=lambda d, x, a: d.like(x, x.select(a["dim"], a["index"]).shape)),
    **each("gather", "fib", 1, 4, full,
           index_shape=lambda d, x, a: [d.size() if dim == a["dim"] % x.dim() else d.randint(1, n) for dim, n in enumerate(x.shape)]),
    **each("scatter_add scatter_reduce.two", "fi", 1, 4, full),
    # Indices without repetition are drawn along the first dimension.
    "scatter": calls("scatter.src", "fib", 1, 4, full, dim=0, index_rule="once"),
    "scatter_value": calls("scatter.value", "fib", 1, 4, full, dim=0, index_rule="once"),
    **each("sort topk argsort", "fi", 1, 4, full),
    **each("dot outer", TO_NUMBER, 1, 1), **each("mm mv", TO_NUMBER, 2, 2), **each("bmm", TO_NUMBER, 3, 3),
    **{name: calls(name, TO_NUMBER, rank, rank, self=added, beta=lambda d, x, a: d.pick(None, 0.5, 2) if x.is_floating_point() else None,
                   alpha=lambda d, x, a: d.pick(None, 0.5, -1) if x.is_floating_point() else None)
       for name, rank in (("addmm", 2), ("baddbmm", 3))},
    **each("matmul", TO_NUMBER, 1, 4, other=of_matmul),
    **each("linear", TO_NUMBER, 1, 4, weight=lambda d, x, a: d.like(x, (d.size(), x.shape[-1])),
           bias=lambda d, x, a: d.pick(None, d.like(x, a["weight"].shape[:1]))),
    **{name: calls("convolution", "f", rank, rank, lambda t: t.numel() > 0 and t.shape[1] <= 16, transposed="transpose" in name,
                   weight=kernel, bias=lambda d, x, a: d.pick(None, d.like(x, (a["filters"] * a["groups"],))),
                   padding=lambda d, x, a: [d.pick(0, 0, 1, 2) for _ in x.shape[2:]])
       for name, rank in (("conv1d", 3), ("conv2d", 4), ("conv3d", 5), ("conv_transpose1d", 3), ("conv_transpose2d", 4))},
    **each("max_pool1d avg_pool1d", "f", 3, 3, full), **each("avg_pool3d", "f", 5, 5, full),
    **each("max_pool2d max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d upsample_nearest2d upsample_bilinear2d", "f", 4, 4, full),
    **each("layer_norm rms_norm", "f", 2, 4, full, weight=weights, bias=weights),
    **each("group_norm", "f", 2, 4, full, weight=channels, bias=channels),
    "batch_norm": calls("_native_batch_norm_legit_no_training", "f", 2, 4, full, weight=channels, bias=channels,
                        momentum=0.1, eps=1e-5),
    "attention": calls("scaled_dot_product_attention", "f", 3, 4, lambda t: t.numel() > 0 and max(t.shape[-2:]) <= 64,
                       scale=lambda d, x, a: d.pick(None, None, None, 0.3)),
    "fake_quantize": calls("fake_quantize_per_tensor_affine", "f", 0, 5, lambda t: t.dtype is torch.float32,
                           scale=lambda d, x, a: d.pick(0.1, 0.05, 0.5)),
    "quantize": quantize,
    "cond": lambda d: flow(d, "cond"),
    "while_loop": lambda d: flow(d, "while_loop"),
}  # fmt: skip
"""By the name by which pairs are counted."""

DYNAMIC = 0.04
"""Share of the graphs that may have a dynamic size, which torch.export captures in a second."""
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
    3: "constant_pad_nd pow sigmoid silu sub neg index_select unbind",
    2: "stack gather scatter_add masked_fill rsub split avg_pool2d index leaky_relu hardswish eq where tanh embedding",
}  # fmt: skip
WEIGHTS = {name: weight for weight, names in _BY_WEIGHT.items() for name in names.split()}
"""How often an operator is drawn around a pair (others: 1): log2 of its calls in the traces of models of BackendBench's dataset, divided by 50."""


def draw(seed: int, number: int, attempt: int = 0) -> Graph:
    """Graph `number` of a seed."""
    drawn, names = Draw(f"{seed}/{number}/{attempt}"), tuple(OPERATORS)
    plan = planned(seed, number, names)
    if len(plan) > 1 and drawn.chance(0.5):
        weights = [WEIGHTS.get(name, 1) for name in names]
        before, after = (drawn.choices(names, weights, k=drawn.choice(count)) for count in (BEFORE, AFTER))  # fmt: skip
        plan = (*before, *plan, *after)
    for name in plan:
        if drawn.nodes and drawn.chance(0.8):
            drawn.focus = drawn.choice(drawn.nodes[-1].results)
        _add(drawn, OPERATORS[name])
    if not drawn.nodes:
        return draw(seed, number, attempt + 1)
    return _dynamic(drawn) if drawn.chance(DYNAMIC) else drawn.graph()


def _dynamic(drawn: Draw) -> Graph:
    """The graph with all dimensions of one size dynamic, if eager accepts another size there."""
    graph = drawn.graph()
    sizes = sorted({size for i in graph.inputs.values() for size in i.shape if size > 1})
    size = drawn.choice(sizes or [0])
    dynamic = graph.with_inputs(lambda i: dataclasses.replace(i, dynamic=tuple(a for a, s in enumerate(i.shape) if s == size)))  # fmt: skip
    with contextlib.suppress(*EAGER_ERRORS), torch.no_grad():
        other = dynamic.resized()
        other(*other.tensors())
        return dynamic
    return graph


def planned(seed: int, number: int, names: tuple[str, ...]) -> tuple[str, ...]:
    """The operators that graph `number` contains: first each one alone, ALONE times, then all pairs."""
    order = _order(seed, names, 1 if number < ALONE * len(names) else 2)
    return order[number % len(order)]


@functools.lru_cache(4)
def _order(seed: int, names: tuple[str, ...], length: int) -> list[tuple[str, ...]]:
    order = list(itertools.product(names, repeat=length))
    random.Random(seed).shuffle(order)
    return order


def _add(drawn: Draw, add: Operator) -> None:
    """Add a call of an operator, if arguments for it are found."""
    focus, inputs = drawn.focus, len(drawn.inputs)
    for _ in range(ATTEMPTS // 4):
        with contextlib.suppress(Unsuitable):
            add(drawn)
            return
        drawn.focus = focus
        for name in [*drawn.inputs][inputs:]:
            del drawn.inputs[name], drawn.values[name]


if __name__ == "__main__":
    print(*OPERATORS, sep="\n")
