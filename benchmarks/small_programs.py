"""Write small programs to compile, one file each: calls of PyTorch's operators with random shapes.

The programs are lowered by torch-mlir and normalised. Some of them do not compile; they are
included, because the same is true for the operators of users. Run it with the Python of the
torch-mlir environment.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from scripts.frontends.exporters import torch_mlir as exporter
from scripts.tools.operators.batch.normalise import Normaliser

aten = torch.ops.aten
Call = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


class Draw:
    """Draws fake tensors with random shapes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._mode = FakeTensorMode()

    def size(self, most: int = 64) -> int:
        return self.random.randint(1, most)

    def shape(self, rank: int | None = None) -> list[int]:
        return [self.size() for _ in range(rank or self.random.randint(1, 3))]

    def tensor(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        dtype = dtype or self.random.choice([torch.float32, torch.float32, torch.float16])
        with self._mode:
            return torch.empty(shape, dtype=dtype)

    def choice(self, *of: Any) -> Any:
        return self.random.choice(of)


def _pointwise(draw: Draw) -> Call:
    call = draw.choice(
        torch.relu, torch.exp, torch.tanh, torch.sigmoid, torch.rsqrt, torch.erf, torch.abs,
        torch.nn.functional.gelu, torch.nn.functional.silu, torch.logical_not, torch.floor,
    )  # fmt: skip
    return call, (draw.tensor(*draw.shape()),)


def _binary(draw: Draw) -> Call:
    call = draw.choice(torch.add, torch.mul, torch.sub, torch.div, torch.maximum, torch.lt, torch.pow)  # fmt: skip
    shape, dtype = draw.shape(2), draw.choice(torch.float32, torch.float16)
    other = [draw.choice(n, 1) for n in shape]
    return call, (draw.tensor(*shape, dtype=dtype), draw.tensor(*other, dtype=dtype))


def _reduction(draw: Draw) -> Call:
    name = draw.choice("sum", "mean", "amax", "argmax", "var", "cumsum", "logsumexp", "prod", "any")
    dim, tensor = draw.choice(0, -1), draw.tensor(*draw.shape(2), dtype=torch.float32)
    return lambda x: getattr(torch, name)(x, dim), (tensor,)


def _normalisation(draw: Draw) -> Call:
    rows, columns = draw.shape(2)
    x = draw.tensor(rows, columns, dtype=torch.float32)
    call = draw.choice(
        lambda x: torch.softmax(x, -1),
        lambda x: torch.log_softmax(x, -1),
        lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
        lambda x: torch.nn.functional.normalize(x),
    )
    return call, (x,)


def _product(draw: Draw) -> Call:
    m, k, n = draw.shape(3)
    dtype = draw.choice(torch.float32, torch.float16)
    if draw.choice(True, False):
        b = draw.size(8)
        return torch.bmm, (draw.tensor(b, m, k, dtype=dtype), draw.tensor(b, k, n, dtype=dtype))
    arguments = [draw.tensor(*shape, dtype=dtype) for shape in ((n,), (m, k), (k, n))]
    return torch.addmm, tuple(arguments)


def _convolution(draw: Draw) -> Call:
    n, c, size = draw.size(4), draw.choice(1, 3, 8, 16), draw.choice(8, 14, 28)
    groups = draw.choice(1, 1, c)
    kernel, stride = draw.choice(1, 3), draw.choice(1, 2)
    x = draw.tensor(n, c, size, size, dtype=torch.float32)
    weight = draw.tensor(groups * draw.size(8), c // groups, kernel, kernel, dtype=torch.float32)
    padding = kernel // 2

    def forward(x, weight):
        return torch.conv2d(x, weight, None, stride, padding, 1, groups)

    def backward(gradient, x, weight):
        arguments = (
            [stride] * 2,
            [padding] * 2,
            [1, 1],
            False,
            [0, 0],
            groups,
            [True, True, False],
        )
        return aten.convolution_backward(gradient, x, weight, None, *arguments)[:2]

    if draw.choice(True, False):
        return forward, (x, weight)
    with draw._mode:
        gradient = torch.empty(forward(x, weight).shape)
    return backward, (gradient, x, weight)


def _pooling(draw: Draw) -> Call:
    x = draw.tensor(draw.size(4), draw.size(16), 16, 16, dtype=torch.float32)
    call = draw.choice(
        lambda x: torch.nn.functional.max_pool2d(x, 2),
        lambda x: torch.nn.functional.avg_pool2d(x, 3, 2, 1),
        lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 1),
        lambda x: torch.nn.functional.interpolate(x, scale_factor=2),
        lambda x: aten.max_pool2d_with_indices(x, [2, 2]),
    )
    return call, (x,)


def _indexing(draw: Draw) -> Call:
    rows, columns, count = draw.shape(3)
    x = draw.tensor(rows, columns, dtype=torch.float32)
    index = draw.tensor(count, dtype=torch.int64)
    along = draw.tensor(rows, columns, dtype=torch.int64)
    return draw.choice(
        (lambda x, i: torch.index_select(x, 0, i), (x, index)),
        (lambda x, i: torch.nn.functional.embedding(i, x), (x, index)),
        (lambda x, i: torch.gather(x, 1, i), (x, along)),
        (lambda x, i: torch.scatter_add(x, 1, i, x), (x, along)),
        (lambda x, i: x[i], (x, index)),
    )


def _movement(draw: Draw) -> Call:
    shape = draw.shape(3)
    x = draw.tensor(*shape)
    call = draw.choice(
        lambda x: torch.cat([x, x], 1),
        lambda x: x.transpose(1, 2).contiguous(),
        lambda x: torch.constant_pad_nd(x, [1, 2], 1.0),
        lambda x: x.flip(0),
        lambda x: x.roll(1, 1),
        lambda x: torch.tril(x),
        lambda x: x.to(torch.float64),
        lambda x: torch.split(x, max(1, shape[0] // 2)),
    )
    return call, (x,)


def _rarely_compiled(draw: Draw) -> Call:
    x = draw.tensor(draw.size(32), draw.size(32), dtype=torch.float32)
    call = draw.choice(
        lambda x: torch.sort(x, -1),
        lambda x: torch.topk(x, 1),
        lambda x: torch.fft.rfft(x),
        lambda x: torch.linalg.qr(x),
        lambda x: torch.median(x, 1),
        lambda x: torch.cummax(x, 1),
        lambda x: torch.nn.functional.max_unpool1d(x, x.to(torch.int64), 1),
    )
    return call, (x,)


KINDS = (
    *(_pointwise, _binary, _reduction, _normalisation, _product, _convolution, _pooling),
    *(_indexing, _movement, _rarely_compiled),
)
"""The kinds of programs; all are drawn equally often."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small_programs", description=__doc__
    )
    parser.add_argument("--out", required=True, type=Path, help="folder")
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--dialect", default="linalg-on-tensors", choices=exporter.OPTIONS["dialect"]
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    draw, normaliser, made = Draw(args.seed), Normaliser(), 0
    for number in range(args.count):
        kind = KINDS[number % len(KINDS)]
        name = f"{number:05}-{kind.__name__.strip('_')}"
        try:
            text = _lowered(*kind(draw), args.dialect)
        except Exception as error:  # skip the operators that torch-mlir rejects
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[:1]}")
            continue
        program = normaliser.normalise(text, exporter.ENTRY)
        (args.out / f"{name}.mlir").write_text(program, encoding="utf-8")
        made += 1
    print(f"{made} of {args.count} programs in {args.out}")


def _lowered(call: Callable[..., Any], inputs: tuple[torch.Tensor, ...], dialect: str) -> str:
    def flat(*tensors: torch.Tensor) -> Any:
        result = call(*tensors)
        return list(result) if isinstance(result, tuple | list) else result

    graph = make_fx(flat, decomposition_table=get_decomposition_table(), tracing_mode="fake")(*inputs)  # fmt: skip
    return exporter.lower(graph.graph, dialect, {})


if __name__ == "__main__":
    main()
