"""Rewrite random graphs and compare them with the originals; prints one JSON object per case.

Run with the Python of an environment with torch: `-m tests.pipeline.fx_rewrites_in_torch PATH
SEED COUNT`; used by test_fx_rewrites.py.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable

import torch
from torch.nn import functional

from models.parts import int4
from scripts.config import plugins
from scripts.frontends.lowering import fx_rewrites

FLOATS = (torch.float32, torch.float64, torch.float16)
INTEGERS = (torch.int64, torch.int32)


class Case(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor):
        return self.function(*inputs)


def main() -> None:
    path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for family in FAMILIES_FOR_SPEED if path == "speed" else FAMILIES:
        for number in range(count if family in OF_SEVERAL_KINDS else 1):
            rng = random.Random(f"{seed}/{number}/{family.__name__}")
            torch.manual_seed(rng.getrandbits(31))
            function, inputs = family(rng)
            print(json.dumps({"case": family.__name__} | judge(path, Case(function), inputs)))


def judge(path: str, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> dict:
    """Names of the rewrites, whether anything changed, and whether the results are the same."""
    want = module(*[tensor.clone() for tensor in inputs])
    program = torch.export.export(module.eval(), inputs, strict=False)
    if path == "xla":
        from scripts.frontends.exporters import torch_xla

        program = program.run_decompositions(dict(torch_xla.DECOMPOSITIONS))
    elif path == "speed":
        program = program.run_decompositions({})
    else:
        from torch_mlir.extras.fx_decomp_util import get_decomposition_table

        program = program.run_decompositions(get_decomposition_table())
    before = str(program.graph)  # not .code, which is made when a graph is recompiled
    names = fx_rewrites.apply(program, wanted(path))
    shapes = [node.meta.get("val") for node in program.graph.nodes if node.op == "call_function"]
    dynamic = sum(not isinstance(s, int) for v in shapes if hasattr(v, "shape") for s in v.shape)
    touched = str(program.graph) != before
    ops = sorted({str(n.target) for n in program.graph.nodes if n.op == "call_function"})
    if path == "xla" and touched:
        program = program.run_decompositions()  # as PyTorch/XLA does it
    got = program.module()(*[tensor.clone() for tensor in inputs])
    return {
        "rewrites": names,
        "touched": touched,
        "dynamic": dynamic,
        "equal": same(got, want),
        "ops": ops,
    }


def wanted(path: str) -> list[str]:
    """The rewrites of programs of a dialect of torch-mlir, of PyTorch/XLA, or of baselines (`speed`)."""
    if path == "speed":
        return list(fx_rewrites.SPEED)
    exporter, dialect = ("torch_xla", "stablehlo") if path == "xla" else ("torch_mlir", path)
    needed = [name for name, into in plugins.exporter(exporter).rewrites.items() if dialect in into]
    return [*needed, *fx_rewrites.SPEED]


def same(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Equal in type and shape; integers to the bit, floats up to the order of a sum."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if not want.is_floating_point():
        return torch.equal(got, want)
    tolerance = {torch.float16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-12}[want.dtype]
    return torch.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def numbers(rng: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(-9, 10, shape).to(dtype)


def scatter_reduce(rng: random.Random):
    """Any reduction and dtype, empty and full groups, an index of its own for each element."""
    reduction = rng.choice(("sum", "prod", "mean", "amax", "amin"))
    own, dtype = rng.random() < 0.5, rng.choice(FLOATS + INTEGERS)
    rank = rng.randint(1, 3)
    dim = rng.randrange(-rank, rank)
    shape = [rng.randint(1, 5) for _ in range(rank)]
    given = list(shape)
    given[dim] = rng.randint(1, 9)
    index = torch.randint(0, shape[dim], given)
    inputs = (numbers(rng, tuple(shape), dtype), index, numbers(rng, tuple(given), dtype))
    return lambda s, i, x: s.scatter_reduce(dim, i, x, reduction, include_self=own), inputs


def rows(rng: random.Random):
    """A scatter whose index is the same along a row, as PyTorch Geometric's are."""
    reduction = rng.choice(("sum", "add", "prod", "mean", "amax", "amin"))
    own, dtype = rng.random() < 0.5, rng.choice(FLOATS + INTEGERS)
    trailing = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 2)))
    nodes, edges = rng.randint(1, 6), rng.randint(1, 12)
    index = torch.randint(0, nodes, (edges,))

    def function(s, i, x):
        spread = i.view(-1, *[1] * len(trailing)).expand_as(x)
        if reduction == "add":
            return s.scatter_add(0, spread, x)
        return s.scatter_reduce(0, spread, x, reduction, include_self=own)

    shapes = (nodes, *trailing), (edges, *trailing)
    return function, (numbers(rng, shapes[0], dtype), index, numbers(rng, shapes[1], dtype))


def many_rows(rng: random.Random):
    """A scatter of more than what is kept on a stack."""
    reduction = rng.choice(("sum", "amax", "prod"))
    index = torch.randint(0, 7, (3000,))

    def function(s, i, x):
        return s.scatter_reduce(0, i.view(-1, 1).expand_as(x), x, reduction)

    near_one = 1 + 0.001 * torch.randn(3000, 2)
    return function, (torch.randn(7, 2), index, near_one)


def masked_graph(rng: random.Random):
    """Edges without self-loops, then self-loops, then messages: all masks, none, and some."""
    nodes, edges, width = rng.randint(1, 6), rng.randint(1, 15), rng.randint(1, 3)
    edge = torch.randint(0, nodes, (2, edges))
    match rng.randrange(3):
        case 0:
            edge[1] = edge[0]
        case 1 if nodes > 1:
            edge[1] = (edge[0] + 1) % nodes
    reduction, own = rng.choice(("sum", "amax", "amin", "prod", "mean")), rng.random() < 0.5
    loops, first = rng.random() < 0.7, rng.random() < 0.5

    def function(x, edge):
        kept = edge[:, edge[0] != edge[1]]
        if loops:
            own_edges = torch.arange(nodes).view(1, -1).repeat(2, 1)
            kept = torch.cat([own_edges, kept] if first else [kept, own_edges], 1)
        source, target = kept[0], kept[1]
        messages = torch.nn.functional.leaky_relu(x.index_select(0, source) - x[target])
        into = x.new_full((nodes, width), 0.5)
        spread = target.view(-1, 1).expand_as(messages)
        count = torch.zeros(nodes).scatter_add(0, target, torch.ones(target.size(0)))
        found = into.scatter_reduce(0, spread, messages, reduction, include_self=own)
        return found + count.view(-1, 1) + messages.sum(0)

    return function, (torch.randn(nodes, width), edge)


def counted_mask(rng: random.Random):
    """A use of the masked size as a number: no form at full length."""

    def function(x):
        kept = x[x[:, 0] > 0]
        return kept.sum(0) / kept.size(0)

    values = torch.randn(9, 2)
    values[0, 0], values[1, 0] = 1, -1  # some are kept and some are not
    return function, (values,)


def negative_index(rng: random.Random):
    sizes = [rng.randint(1, 5) for _ in range(3)]
    dim = rng.randrange(3)
    index = torch.randint(-sizes[dim], sizes[dim], (rng.randint(1, 6),))
    chosen = [slice(None)] * dim

    return lambda x, i: x[(*chosen, i)], (torch.randn(sizes), index)


def arange_index(rng: random.Random):
    return lambda x: x[torch.arange(3)] + x[torch.tensor([0, 2, 1])], (torch.randn(4, 2),)


def boolean_scan(rng: random.Random):
    scan = rng.choice((torch.cumsum, torch.cumprod))
    shape = tuple(rng.randint(1, 6) for _ in range(2))
    dim = rng.randrange(-2, 2)
    return lambda x: scan(x > 0, dim), (torch.randn(shape),)


class LastStates(torch.nn.Module):
    """The last states of an LSTM, hidden and cell."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 4, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.lstm(x)[1])


def last_states(rng: random.Random):
    flags = {name: rng.random() < 0.5 for name in ("batch_first", "bidirectional")}
    model = LastStates(num_layers=rng.randint(1, 3), **flags)
    return model, (torch.randn(rng.randint(2, 4), rng.randint(2, 4), 3),)


def constant_nonzero(rng: random.Random):
    bits = [rng.randint(0, 1) for _ in range(rng.randint(2, 9))]
    kept = rng.random() < 0.5

    def function(x):
        fixed = torch.tensor(bits)
        places = fixed.nonzero().view(-1)
        if kept:
            return x[fixed == 1] * 2 + x.index_select(0, places)
        return x.index_select(0, places).sum() + places.size(0)

    return function, (torch.randn(len(bits)),)


def plain(rng: random.Random):
    """Nothing that needs a rewrite."""
    return lambda x: torch.softmax(x @ x.mT, -1).cumsum(0), (torch.randn(rng.randint(1, 4), 3),)


def bags(rng: random.Random):
    """An embedding bag with as many indices per bag, by sum, mean or maximum, or with weights."""
    mode = rng.choice(("sum", "sum", "mean", "max"))
    count, size, rows_, columns = (rng.randint(1, 6) for _ in range(4))
    dtype = rng.choice((torch.float32, torch.float64))
    inputs = (torch.randint(0, rows_, (count, size)), numbers(rng, (rows_, columns), dtype))
    if mode == "sum" and rng.random() < 0.3:
        weights = numbers(rng, (count, size), dtype)
        inputs += (weights,)
    return lambda i, t, w=None: functional.embedding_bag(
        i, t, mode=mode, per_sample_weights=w
    ), inputs


def uneven_bags(rng: random.Random):
    """An embedding bag whose bags differ in size: there is no rewrite of it."""
    offsets = torch.tensor([0, rng.randint(1, 3), 5])
    inputs = (torch.randint(0, 9, (8,)), numbers(rng, (9, 4), torch.float32))
    return lambda i, t: functional.embedding_bag(i, t, offsets, mode="sum"), inputs


def aggregated(rng: random.Random):
    """A product, with fewer columns, of rows that are gathered, added and scaled."""
    return _aggregation(rng, rng.choice((torch.float32, torch.float64)))


def kept_aggregation(rng: random.Random):
    """The same, but with a reason to keep the order: the rewrite must not change it."""
    why = rng.choice(("wide", "used", "base", "columns", "divided", "pooled", "half"))
    dtype = torch.float16 if why == "half" else torch.float32
    return _aggregation(rng, dtype, why)


def _aggregation(rng: random.Random, dtype: torch.dtype, why: str = ""):
    nodes, columns = rng.randint(2, 6), rng.randint(3, 9)
    edges = rng.randint(
        9 if why else 1, 15
    )  # more than nodes, so that they are not projected instead
    into = nodes - 1 if why == "pooled" else nodes + rng.randint(0, 2)
    width = columns + 1 if why == "wide" else rng.randint(1, columns - 1)
    twice, scaled, mean, by_rows = (rng.random() < 0.5 for _ in range(4))
    product = rng.choice(("linear", "biased", "mm", "addmm"))
    edge = torch.stack([torch.randint(0, nodes, (edges,)), torch.randint(0, into, (edges,))])
    factors = {
        "columns": torch.randn(1, columns),
        "divided": torch.randn(edges, 1),
    }.get(why, torch.randn(rng.choice((edges, 1)), 1))

    def function(x, edge, factor, w, bias):
        rows = x.index_select(-2, edge[0]) if by_rows else x[edge[0]]
        if twice:
            rows = rows[torch.arange(edges).flip(0)]
        if why == "divided":
            rows = factor / rows
        elif scaled or why == "columns":
            rows = factor * rows
        spread = edge[1].view(-1, 1).expand_as(rows)
        base = rows.new_full((into, columns), 0.5 if why == "base" else 0.0)
        found = base.scatter_add(0, spread, rows)
        if mean:
            count = rows.new_zeros(into).scatter_add(0, edge[1], rows.new_ones(edges)).clamp(min=1)
            found = found / count.view(-1, 1).expand_as(found)
        result = {
            "linear": lambda: functional.linear(found, w.T),
            "biased": lambda: functional.linear(found, w.T, bias),
            "mm": lambda: found @ w,
            "addmm": lambda: torch.addmm(bias, found, w),
        }[product]()
        return result + found.sum() if why == "used" else result

    given = [torch.randn(nodes, columns), factors, torch.randn(columns, width), torch.randn(width)]
    x, factors, w, bias = (tensor.to(dtype) for tensor in given)
    return function, (x, edge, factors, w, bias)


def interleaved(rng: random.Random):
    """A product with a 4-bit weight that is unpacked and scaled in groups."""
    return _unpacked(rng, rng.choice((torch.float32, torch.float64)))


def kept_interleaving(rng: random.Random):
    """The same, but with a reason to interleave: the rewrite must not change it."""
    why = rng.choice(("used", "columns", "many", "half"))
    return _unpacked(rng, torch.float16 if why == "half" else torch.float32, why)


def _unpacked(rng: random.Random, dtype: torch.dtype, why: str = ""):
    groups, size, outputs = rng.randint(1, 3), 2 * rng.randint(1, 4), rng.randint(5, 9)
    columns, tokens = groups * size, outputs if why == "many" else rng.randint(1, 4)
    batched, shifted, biased = (rng.random() < 0.5 for _ in range(3))
    packed = torch.randint(-128, 128, (outputs, columns // 2), dtype=torch.int8)
    x = torch.randn((1, tokens, columns) if batched else (tokens, columns))
    scales = torch.randn(outputs, groups, size if why == "columns" else 1)
    given = [tensor.to(dtype) for tensor in (x, scales, torch.randn(outputs))]

    def function(x, packed, scales, bias):
        values = int4.unpack(packed).to(dtype).unflatten(-1, (groups, size))
        weight = ((values - 0.5 if shifted else values) * scales).flatten(-2)
        result = functional.linear(x, weight, bias if biased else None)
        return result + weight.sum() if why == "used" else result

    return function, (given[0], packed, *given[1:])


def patches(rng: random.Random):
    """A convolution that cuts an image into patches, as the first layer of vision transformers."""
    return _convolution(rng, rng.choice((torch.float32, torch.float64)))


def kept_convolution(rng: random.Random):
    """The same, but with a reason why it is no product of patches: the rewrite must not change it."""
    why = rng.choice(("overlap", "gap", "rest", "padding", "dilation", "groups", "single", "half"))
    return _convolution(rng, torch.float16 if why == "half" else torch.float32, why)


def small_images(rng: random.Random):
    """A convolution with more channels than places in its result."""
    return _of_small_images(rng, rng.choice((torch.float32, torch.float64)))


def kept_small_images(rng: random.Random):
    """The same, but with a reason why it stays: the rewrite must not change it."""
    why = rng.choice(("groups", "places", "few weights", "half"))
    return _of_small_images(rng, torch.float16 if why == "half" else torch.float32, why)


def _of_small_images(rng: random.Random, dtype: torch.dtype, why: str = ""):
    groups = 2 if why == "groups" else 1
    channels, out = 32 * groups, 48 if why == "few weights" else 96
    kernel = (3, 2) if why == "few weights" else rng.choice(((3, 3), (3, 4), (1, 1)))
    if kernel == (1, 1):
        channels = 192 * groups
    options = {
        "stride": rng.choice((2, (1, 2)) if kernel == (1, 1) else (1, 2, (1, 2))),
        "padding": rng.choice((0, 1, (1, 2))),
        "dilation": rng.choice((1, (1, 2))),
        "groups": groups,
    }
    batch, edge = (2, 14) if why == "places" else (rng.randint(1, 2), 4)
    options |= {"stride": 1} if why == "places" else {}
    image = torch.randn(batch, channels, edge, edge + 3)
    weight = torch.randn(out, channels // groups, *kernel)
    biased = rng.random() < 0.5

    def function(image, weight, bias):
        result = functional.conv2d(image, weight, bias if biased else None, **options)
        return result.flatten(2)

    return function, tuple(tensor.to(dtype) for tensor in (image, weight, torch.randn(out)))


def _convolution(rng: random.Random, dtype: torch.dtype, why: str = ""):
    down, across = (1, 1) if why == "single" else (rng.randint(2, 4), rng.randint(1, 4))
    stride = {"overlap": (down - 1, across), "gap": (down + 1, across)}.get(why, (down, across))
    rows, columns = rng.randint(2, 4), rng.randint(2, 4)
    height, width = rows * down + (why == "rest"), columns * across
    groups, channels, out = (
        2 if why == "groups" else 1,
        2 * rng.randint(1, 2),
        2 * rng.randint(1, 3),
    )
    image = torch.randn(rng.randint(1, 3), channels, height, width)
    weight = torch.randn(out, channels // groups, down, across)
    biased = rng.random() < 0.5
    options = {"stride": stride, "groups": groups}
    options |= {"padding": 1} if why == "padding" else {}
    options |= {"dilation": (2, 1)} if why == "dilation" else {}
    if why == "dilation":
        image = torch.randn(*image.shape[:2], height * 2, width)

    def function(image, weight, bias):
        found = functional.conv2d(image, weight, bias if biased else None, **options)
        return found.flatten(2).transpose(1, 2)

    return function, tuple(one.to(dtype) for one in (image, weight, torch.randn(out)))


def pools(rng: random.Random):
    """The maximum over windows of which the last ones end after the image."""
    kernel, stride = rng.randint(2, 4), rng.randint(2, 4)
    options = {"stride": stride, "padding": rng.randint(0, kernel // 2), "ceil_mode": True}
    options["dilation"] = rng.choice((1, 1, 2))
    image = torch.randn(rng.randint(1, 2), 2, rng.randint(9, 16), rng.randint(9, 16))
    if rng.random() < 0.3:
        image = -image.abs() - 1  # padding with zeros would be seen

    def function(image):
        return functional.max_pool2d(image, kernel, **options)

    return function, (image,)


def plain_pools(rng: random.Random):
    """The same without such windows."""
    image = torch.randn(1, 2, rng.randint(9, 16), rng.randint(9, 16))
    return (lambda image: functional.max_pool2d(image, 3, 2, padding=1)), (image,)


def pool_steps(rng: random.Random):
    """A maximum over windows with its indices, and its gradient: overlapping windows, padding, dilation, ties."""
    kernel = [rng.randint(1, 4), rng.randint(1, 4)]
    stride, dilation = ([rng.randint(1, 3), rng.randint(1, 3)] for _ in range(2))
    padding = [rng.randint(0, size // 2) for size in kernel]
    options = (kernel, stride, padding, dilation, rng.random() < 0.5)
    shape = [rng.randint(1, 2)] * rng.randint(1, 2) + [rng.randint(10, 15), rng.randint(10, 15)]
    image = torch.randn(shape) if rng.random() < 0.5 else torch.randint(0, 3, shape).float()
    if rng.random() < 0.3:
        image[..., :6, :6] = -torch.inf
    if rng.random() < 0.3:
        image[..., 7:9, 7:9] = torch.nan

    def function(image):
        best, index = torch.ops.aten.max_pool2d_with_indices(image, *options)
        gradient = torch.ops.aten.max_pool2d_with_indices_backward(
            *(index * 0.1, image, *options, index)
        )
        return torch.cat([best.flatten(), index.flatten().double(), gradient.flatten()])

    return function, (image,)


def batch_norm_steps(rng: random.Random):
    """Batch norm in training mode with its new running statistics."""
    channels, affine = rng.randint(1, 4), rng.random() < 0.7
    shape = [rng.randint(2, 4), channels, *(rng.randint(1, 5) for _ in range(rng.choice((0, 2))))]
    dtype = rng.choice((torch.float32, torch.float64))
    image, scale = 3 * torch.randn(shape, dtype=dtype) + 2, torch.rand(2, channels, dtype=dtype)

    def function(image, scale, running):
        found = torch.ops.aten._native_batch_norm_legit_functional(
            *(image, *(scale if affine else (None, None)), *running, True, 0.3, 1e-3)
        )
        return torch.cat([one.flatten() for one in found])

    return function, (image, scale, torch.rand(2, channels, dtype=dtype))


def gathered_rows(rng: random.Random):
    """A gather with one index per row, as in the gradient of a scatter that adds rows."""
    trailing = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 2)))
    nodes, edges = rng.randint(1, 6), rng.randint(1, 12)
    index = torch.randint(0, nodes, (edges,))
    spread = (-1, *[1] * len(trailing))
    return lambda x, i: x.gather(0, i.view(spread).expand(edges, *trailing)), (
        torch.randn(nodes, *trailing),
        index,
    )


def gathered_elements(rng: random.Random):
    """A gather with an index of its own for each element."""
    columns, dim = rng.randint(2, 4), rng.randint(0, 1)
    inputs = (torch.randn(columns, columns), torch.randint(0, columns, (columns, columns)))
    return lambda x, i: x.gather(dim, i), inputs


def embedding_gradient(rng: random.Random):
    """Rows that are added at an index of several dimensions, more than what is kept on a stack."""
    index = torch.randint(0, 50, (rng.randint(1, 3), 10 * rng.randint(10, 15)))
    width, narrow = 64, rng.random() < 0.3
    updates = torch.randn(*index.shape[:-1], 1 if narrow else index.shape[-1], width)

    def function(i, x):
        return x.new_zeros(50, width).index_put((i,), x, accumulate=True)

    return function, (index, updates)


def masked_step(rng: random.Random):
    """The gradient of a sum over edges without self-loops: rows that are taken by target and added by source."""
    nodes, edges, width = rng.randint(2, 6), rng.randint(1, 15), rng.randint(1, 3)

    def function(gradient, edge):
        kept = edge[:, edge[0] != edge[1]]
        rows = gradient.gather(0, kept[1].view(-1, 1).expand(kept.shape[1], width))
        scales = rows.sum(1, keepdim=True).squeeze(1).unsqueeze(1)
        into = torch.zeros(nodes, width)
        return into.index_put((kept[0],), rows * scales, accumulate=True)

    return function, (torch.randn(nodes, width), torch.randint(0, nodes, (2, edges)))


def grouped_steps(rng: random.Random):
    """The gradients of a convolution with groups of one channel or several."""
    return _convolution_steps(rng, rng.randint(2, 4), rng.random() < 0.8)


def ungrouped_steps(rng: random.Random):
    """The gradients of a convolution without groups."""
    return _convolution_steps(rng, 1, True)


def kept_steps(rng: random.Random):
    """Gradients of a convolution that no rewrite takes: only that of the input is wanted, or the type has 16 bits."""
    half = rng.random() < 0.5
    return _convolution_steps(rng, 1, half, torch.float16 if half else torch.float64, bias=half)


def _convolution_steps(
    rng: random.Random, groups: int, of_weight: bool, dtype=torch.float64, bias: bool = True
):
    """With stride, padding and dilation, in one to three dimensions; the gradient of the input may be left out."""
    rank = rng.randint(1, 3)
    kernel, dilation, stride = ([rng.randint(1, 3) for _ in range(rank)] for _ in range(3))
    padding = [rng.randint(0, d * (k - 1)) for k, d in zip(kernel, dilation, strict=True)]
    shape = [rng.randint(1, 2), groups * rng.randint(1, 2), *(rng.randint(7, 9) for _ in kernel)]
    outputs = groups * rng.randint(1, 3)
    image = torch.randn(shape, dtype=dtype)
    weight = torch.randn(outputs, shape[1] // groups, *kernel, dtype=dtype)
    options = (stride, padding, dilation, False, [0] * rank, groups)
    mask = [not of_weight or rng.random() < 0.8, of_weight, bias]
    made = torch.ops.aten.convolution(image, weight, None, *options)

    def function(gradient, image, weight):
        found = torch.ops.aten.convolution_backward(
            *(gradient, image, weight, [outputs], *options, mask)
        )
        return torch.cat([one.flatten() for one in found if one is not None])

    return function, (torch.randn_like(made), image, weight)


def slice_gradient(rng: random.Random):
    """A slice that is replaced, as in the gradient of a slice; with and without ends, from the front and the back."""
    rank = rng.randint(1, 3)
    shape, dim = [rng.randint(4, 7) for _ in range(rank)], rng.randrange(-rank, rank)
    start = rng.choice((None, 0, 2, -3))
    end = rng.choice((None, 3, 2**63 - 1, -1, 1))
    step = rng.choice((1, 1, 1, 2))
    size = len(range(*slice(start, end, step).indices(shape[dim])))
    given = list(shape)
    given[dim] = size

    def function(whole, part):
        return torch.ops.aten.slice_scatter(whole, part, dim, start, end, step)

    return function, (torch.randn(shape), torch.randn(given))


def unset_values(rng: random.Random):
    """A tensor whose values are not set, of which only the shape matters."""
    shape = [rng.randint(1, 4) for _ in range(3)]

    def function(left):
        unset = torch.ops.aten.empty_permuted(
            shape, [0, 2, 1], dtype=left.dtype, device=left.device
        )
        return torch.where(left > 0, left, left * 2) + unset.isnan() * 0

    return function, (torch.randn(shape),)


def special_values(rng: random.Random):
    """NaN and infinities in comparisons and limits."""
    values = torch.tensor([torch.nan, torch.inf, -torch.inf, *torch.randn(rng.randint(1, 4))])
    limit = rng.choice((-1.0, 0, 0.5))

    def function(x):
        compared = torch.stack([x == x, x == x.clone(), torch.isfinite(x)])
        return torch.cat([compared.float().flatten(), x.clamp(min=limit), x.clamp(max=limit)])

    return function, (values,)


def boolean_sums(rng: random.Random):
    """Sums of booleans, of which several are True."""
    count = rng.randint(2, 5)
    some, more = torch.rand(count) > 0.3, torch.rand(count) > 0.3
    index = torch.randint(0, 2, (count,))

    def function(x, y, i):
        put = x.index_put((i,), y, accumulate=True), x.index_put((y,), y)
        return torch.stack([x + y, x.scatter_add(0, i, y), *put])

    return function, (some, more, index)


def log_scans(rng: random.Random):
    """Cumulative sums of exponentials that leave the range of their type, along any dimension."""
    dtype, rank = rng.choice((torch.float32, torch.float64)), rng.randint(1, 3)
    values = 200 * torch.randn([rng.randint(1, 9) for _ in range(rank)], dtype=dtype)
    values.view(-1)[rng.randrange(values.numel())] = rng.choice((0.0, -torch.inf, torch.inf))
    dim = rng.randrange(-rank, rank)
    return lambda x: torch.logcumsumexp(x, dim), (values,)


def no_elements(rng: random.Random):
    """A tensor of nothing that is computed, viewed and joined."""
    width = rng.randint(1, 4)
    return lambda x: torch.cat([(x[:0] * 2).reshape(-1, width), x]), (torch.randn(3, width),)


OF_SEVERAL_KINDS = (scatter_reduce, rows, many_rows, masked_graph, bags)
"""Families that draw a kind, of which one has another rewrite than the next."""
FAMILIES_FOR_SPEED = (
    *(aggregated, kept_aggregation, interleaved, kept_interleaving, patches, kept_convolution),
    *(grouped_steps, ungrouped_steps, kept_steps, small_images, kept_small_images),
)
"""Those with operators that a rewrite for speed takes. The lowering paths have these rewrites too, on all families."""
FAMILIES = (
    *(scatter_reduce, rows, many_rows, masked_graph, counted_mask, negative_index),
    *(arange_index, boolean_scan, last_states, constant_nonzero, plain, bags, uneven_bags),
    *(pools, plain_pools, pool_steps, batch_norm_steps, gathered_rows, gathered_elements),
    *(embedding_gradient, masked_step, slice_gradient, unset_values, *FAMILIES_FOR_SPEED),
    *(special_values, boolean_sums, log_scans, no_elements),
)

if __name__ == "__main__":
    main()
