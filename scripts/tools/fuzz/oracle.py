"""Decides what a graph has to compute: eager in its own dtypes, in float64, and in float64 with rounding errors put in.

The last one shows how much the results of correct programs differ, because a compiler may round each value otherwise. A graph
has no right result if rounding can change a decision (a tie, a comparison of equal numbers), or if PyTorch does not define it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from scripts.core import tensors
from scripts.frontends.torch_model import convert
from scripts.measure.verify import verification
from scripts.measure.verify.verify import Expected, verify
from scripts.tools.fuzz.generator import Graph, Node
from scripts.tools.operators.calls.calling import tensors_in

SIDES = (-1.0, 1.0, 0.0)
"""Runs with rounding errors put in: what is divided is less, more, or the same, so that no tie is decided by chance. In the last one, sums near 0 are 0."""
ULPS = 2.0
"""The largest error that is put into a result, in units of its dtype's last place."""
ALLOWED = 10.0
"""How many times the differences between those runs an error may be."""
UNSTABLE = 0.1
"""Differences of this share of the values, and of their mean, leave a graph without a right result."""
_EXACT = """
neg abs relu sign sgn positive isnan isinf isfinite nan_to_num logical_not clone eq ne lt le gt ge maximum minimum
logical_and logical_or logical_xor where clamp clamp_min clamp_max masked_fill amax amin any all count_nonzero
argmax argmin max min view reshape permute flip roll transpose diagonal unsqueeze squeeze flatten expand repeat
tile slice select unbind split chunk unfold repeat_interleave cat stack constant_pad_nd reflection_pad1d
reflection_pad2d replication_pad1d replication_pad2d tril triu pixel_shuffle rot90 movedim full_like arange eye
index_select embedding gather scatter index_copy index slice_scatter select_scatter sort topk argsort max_pool1d
max_pool2d max_pool2d_with_indices upsample_nearest2d floor ceil trunc round
"""
"""Operators that round nothing."""
_SUMS = """
sum mean var std var_mean linalg_vector_norm cumsum logcumsumexp mm bmm matmul linear addmm baddbmm mv dot
convolution index_add scatter_add scatter_reduce index_put avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d
layer_norm group_norm rms_norm scaled_dot_product_attention
"""
"""Operators whose errors are those of sums: as large as those of the other values."""
_DIVIDES = ("fake_quantize_per_tensor_affine", "quantize_per_tensor", "remainder", "fmod", "floor_divide")  # fmt: skip
"""Operators that divide, and decide by the quotient."""
_FINITE = (
    *("convolution", "avg_pool1d", "avg_pool2d", "avg_pool3d", "upsample_bilinear2d", "group_norm"),
    *("_native_batch_norm_legit_no_training", "quantize_per_tensor"),
    "fake_quantize_per_tensor_affine",
)
"""Operators that may multiply zeros, such as of the padding, with infinity, subtract infinities, or make a NaN an integer."""


class Undefined(Exception):
    """A graph has no right result; the message is the reason, in a word."""


@dataclass(frozen=True)
class Reference:
    """What a graph has to compute. `inputs`: the types of its inputs, and `arrays` their values, as stages store them. `spread`: how far
    correct results are from float64, by element; None for results that are not of floating point. `resized`: at another dynamic size."""

    inputs: tuple[tensors.TensorType, ...]
    arrays: list[np.ndarray]
    expected: Expected
    spread: list[np.ndarray | None]
    resized: Reference | None = None

    @property
    def stored(self) -> list[np.ndarray]:
        """The values of the inputs in their own dtypes."""
        return [tensors.as_native(a, t.dtype) for a, t in zip(self.arrays, self.inputs, strict=True)]  # fmt: skip

    def problem(self, outputs: Sequence[np.ndarray]) -> str:
        """What is wrong with results, or ""."""
        judged = verify(outputs, self.expected, {})
        if judged.code == verification.PASS:
            return ""
        if len(outputs) != len(self.expected.golden):
            return judged.detail
        return judged.detail if any(map(self._differs, range(len(outputs)), outputs)) else ""

    def _differs(self, number: int, got: np.ndarray) -> bool:
        """Whether an output differs from eager's by more than rounding explains."""
        spread, want = self.spread[number], self.expected.golden[number]
        if spread is None:
            return got.dtype != want.dtype or not np.array_equal(got, want)
        if got.shape != want.shape or self.expected.fp64 is None:
            return True
        exact = self.expected.fp64[number]
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(got.astype(np.float64) - exact)
            odd = np.isfinite(got.astype(np.float64)) != np.isfinite(want)
            return bool((odd | (error > ALLOWED * spread)).any())


def reference(graph: Graph) -> Reference:
    """Run a graph in eager. Raises Undefined, and what eager raises."""
    inputs = graph.tensors()
    with torch.no_grad():
        values = graph.run(inputs, _checked)
        results = [values[name] for name in graph.results]
        if not any(tensor.numel() for tensor in results):
            raise Undefined("empty")
        wide = convert.cast_floats(inputs, torch.float64)
        wide_values = graph.run(wide, _widened)
        exact = [wide_values[name] for name in graph.results]
        chosen = torch.Generator().manual_seed(0)
        others = []
        for side in SIDES:
            noisy = graph.run(wide, _Perturbed(values, chosen, side))
            others.append([noisy[name] for name in graph.results])
    spread = [_spread(*runs) for runs in zip(results, exact, *others, strict=True)]
    types = tuple(convert.tensor_type(f"output {i}", tensor) for i, tensor in enumerate(results))
    dtypes = {tensor.dtype for tensor in values.values()}
    dtype = next((short for kind, short in _NARROW.items() if kind in dtypes), "f32")
    expected = Expected(
        types=types,
        golden=[convert.to_numpy(tensor) for tensor in results],
        fp64=[convert.to_numpy(tensor) for tensor in exact],
        deterministic=True,
        dtype=dtype,
    )
    kinds = tuple(convert.tensor_type(f"input {i}", tensor) for i, tensor in enumerate(inputs))
    resized = reference(graph.resized()) if graph.dimensions else None
    return Reference(kinds, [convert.to_numpy(tensor) for tensor in inputs], expected, spread, resized)  # fmt: skip


_NARROW = {torch.bfloat16: "bf16", torch.float16: "f16"}


def _spread(own: torch.Tensor, exact: torch.Tensor, *others: torch.Tensor) -> np.ndarray | None:
    """How far correct results are from the exact one. Raises Undefined if they differ in more than rounding."""
    if not own.is_floating_point():
        if not all(torch.equal(own, other) for other in (exact.to(own.dtype), *others)):
            raise Undefined("decision")
        return None
    largest = torch.zeros_like(exact)
    finite = exact.isfinite()
    for other in (own.double(), *others):
        same = torch.where(finite, other.isfinite(), (other == exact) | (other.isnan() & exact.isnan()))  # fmt: skip
        if not same.all():
            raise Undefined("overflow")
        largest = torch.maximum(largest, torch.where(finite, (other - exact).abs(), 0.0))
    sizes = torch.where(finite, exact.abs(), 0.0)
    scale = sizes.mean() if sizes.numel() else 0.0
    if (largest > UNSTABLE * (sizes + scale)).any():
        raise Undefined("unstable")
    # A compiler may take subnormal numbers as 0.
    least = torch.finfo(own.dtype).eps * (sizes + scale) + torch.finfo(own.dtype).tiny / ALLOWED
    return (torch.maximum(largest, largest.mean()) + least).numpy()


def _checked(node: Node, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call an operator in its own dtypes. Raises Undefined where PyTorch does not define the result."""
    base = node.op.split(".")[1]
    if base == "_to_copy" and not kwargs["dtype"].is_floating_point and args[0].is_floating_point():
        _castable(args[0], kwargs["dtype"])
    if base in ("sort", "argsort", "topk", "argmax", "argmin", "max", "min") and args[0].is_floating_point() and args[0].isnan().any():  # fmt: skip
        raise Undefined("nan-order")
    if base in _FINITE and not all(tensor.isfinite().all() for tensor in args if isinstance(tensor, torch.Tensor)):  # fmt: skip
        raise Undefined("not finite")
    if "batch_norm" in base and any(args[0].shape[1] != channel.numel() for channel in args[1:5]):
        raise Undefined("size")  # eager reads what is not there
    result = node.operator(*args, **kwargs)
    if base in ("argmax", "argmin") or (base in ("max", "min") and len(tensors_in(result)) > 1):
        dim, extreme = args[1], args[0].amax if "max" in base else args[0].amin
        if ((args[0] == extreme(dim, True)).sum(dim) > 1).any():
            raise Undefined("tie")
    if base in ("topk", "sort", "argsort") and args[0].dim():
        dim = args[2] if base == "topk" else args[1]
        values = args[0].sort(dim).values
        size = values.shape[dim]
        if size > 1 and (values.narrow(dim, 1, size - 1) == values.narrow(dim, 0, size - 1)).any():
            raise Undefined("tie")
    if base == "max_pool2d_with_indices" and args[0].unique().numel() < args[0].numel():
        raise Undefined("tie")
    return result


def _castable(values: torch.Tensor, dtype: torch.dtype) -> None:
    if dtype is torch.bool:
        return
    limits = torch.iinfo(dtype)
    inside = (values > limits.min - 1) & (values < min(limits.max, 2**31 - 1) + 1)
    if not inside.all():
        raise Undefined("cast")


def _widened(node: Node, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call an operator in float64. Those that have no float64 run in float32."""
    floats = [k for k, v in kwargs.items() if isinstance(v, torch.dtype) and v.is_floating_point]
    wide = kwargs | dict.fromkeys(floats, torch.float64)
    if node.op == "aten.rms_norm.default" and len(args) < 4:
        wide.setdefault("eps", torch.finfo(torch.float32).eps)  # its default depends on the dtype
    try:
        return node.operator(*args, **wide)
    except (RuntimeError, AssertionError):
        narrow = convert.cast_floats(args, torch.float32)
        return convert.cast_floats(node.operator(*narrow, **kwargs), torch.float64)


class _Perturbed:
    """Calls operators in float64, and puts the rounding errors of their own dtype into the results. `values`: of the run in its own dtypes."""

    def __init__(self, values: Mapping[str, torch.Tensor], chosen: torch.Generator, side: float) -> None:  # fmt: skip
        self._own, self._chosen, self._side = values, chosen, side

    def __call__(self, node: Node, args: Any, kwargs: dict[str, Any]) -> Any:
        base = node.op.split(".")[1]
        if base in _DIVIDES and args[0].is_floating_point():
            args = (args[0] * (1 + self._side * ULPS * torch.finfo(torch.float32).eps), *args[1:])
        results = zip(node.results, tensors_in(_widened(node, args, kwargs)), strict=True)
        return [self._noisy(result, self._own[name], base) for name, result in results]

    def _noisy(self, result: torch.Tensor, own: torch.Tensor, base: str) -> torch.Tensor:
        """A result with rounding errors of its own dtype."""
        is_exact = base in _EXACT.split() or (base == "_to_copy" and own.dtype not in _NARROW)
        if not own.is_floating_point() or not result.numel() or is_exact:
            return result
        size = result.abs()
        if base in _SUMS.split():
            size = size + torch.where(size.isfinite(), size, 0.0).mean()
        noise = torch.rand(result.shape, generator=self._chosen, dtype=torch.float64) * 2 - 1
        most = ULPS * torch.finfo(own.dtype).eps * size
        noisy = result + noise * most
        if self._side == 0:
            noisy = torch.where(result.abs() < most, 0.0, noisy)
        return torch.where(result.isfinite(), noisy, result)
