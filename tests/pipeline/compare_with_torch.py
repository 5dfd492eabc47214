"""Compare random outputs by torch's own `same` and by scripts.measure.verify.torch_same; print a tally as JSON.

Run it with a Python that has torch. `--case N` compares one case and shows it.
"""

from __future__ import annotations

import argparse
import collections
import json
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np
import torch
import torch._dynamo.utils as dynamo

from scripts.measure.verify import torch_same

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = np.float32

SEED = 20261121
FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
# Either side of 10 and of 1000 values, 1x1 kernels and what only looks like them.
SHAPES = [
    (), (1,), (0,), (2, 0), (2,), (3,), (2, 3), (10,), (11,), (2, 5, 1, 1), (3, 4, 1, 1),
    (1, 1, 2, 3), (999,), (1000,), (1001,), (25, 40), (4, 10, 5, 5), (10, 100, 1, 1),
    (1, 1, 10, 100), (10, 10, 10, 1), (1000, 1, 1), (1, 1100, 1, 1),
]  # fmt: skip
LARGE = [shape for shape in SHAPES if np.prod(shape) >= 999]
SMALL = [shape for shape in SHAPES if 2 <= np.prod(shape) <= 11]
TOLS = (0.0, 1e-4, 1e-3, 1e-3, 1e-2, 1e-2, 0.0199, 0.02, 0.0201, 0.1, 0.6, 1.0)
MULTIPLIERS = (2, 3, 8, 10)
TRIED = (1, 2, 3, 3, 8, 8, 10, 10, 10)
NEAR_ONE = (0.5, 0.99, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1 + 1e-9, 1 + 1e-6, 1 + 1e-3, 1.01, 2.0)


@dataclass
class Output:
    """One output: float64 values that fit `dtype` exactly, and the float64 reference."""

    kind: str
    dtype: str
    golden: np.ndarray
    actual: np.ndarray
    fp64: np.ndarray | None
    fp64_dtype: str
    actual_dtype: str


@dataclass
class Case:
    outputs: list[Output]
    tolerance: torch_same.Tolerance
    drop: bool  # one output of actual is missing


@dataclass
class Trace:
    """What torch's `same` called on its way, for the rule that decided."""

    closes: list[tuple[float, bool]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def rule(self, output: Output, tol: float) -> str:
        """A name for the path taken, and for RMSE the bracket of multipliers it tells apart."""
        if any("dtype mismatch" in m for m in self.messages):
            return "dtype"
        kind = "bool" if output.dtype == "bool" else "integer" if "int" in output.dtype else "float"
        if self.scores:
            return "cosine"
        if self.errors:
            golden, actual = self.errors
            if np.isnan(golden):
                return "rmse, golden is nan"
            if not np.isfinite(actual):
                return "rmse, actual is not finite"
            if golden <= 1e-9 * actual:
                return "rmse, golden is exact"
            ratio = (actual - tol / 10) / golden
            return f"rmse, multiplier beyond {max([0, *(m for m in MULTIPLIERS if ratio > m)])}"
        if len(self.closes) == 2:
            return "only golden is nan"
        return f"{kind} allclose"


# --- cases ---------------------------------------------------------------------------------------


def fit(values: np.ndarray, dtype: str) -> np.ndarray:
    """Float64 (or int64) values, rounded to what `dtype` holds."""
    values = np.asarray(values)
    with np.errstate(all="ignore"):
        if dtype in FLOATS:
            return torch.from_numpy(np.array(values, np.float64)).to(getattr(torch, dtype)).double().numpy()  # fmt: skip
        if dtype == "bool":
            return values > 0
        limits = np.iinfo(dtype)
        return np.clip(values, limits.min, limits.max).astype(dtype)


def make_case(index: int) -> Case:
    rng = np.random.default_rng([SEED, index])
    tolerance = torch_same.Tolerance(
        float(rng.choice(TOLS)), bool(rng.random() < 0.2), bool(rng.random() < 0.4)
    )
    count = int(rng.choice([0, 1, 2, 3], p=[0.02, 0.78, 0.1, 0.1]))
    with_fp64 = rng.random() < 0.75
    outputs = [make_output(rng, tolerance, with_fp64, count > 1) for _ in range(count)]
    return Case(outputs, tolerance, drop=bool(count > 1 and rng.random() < 0.05))


def make_output(
    rng: np.random.Generator, tolerance: torch_same.Tolerance, with_fp64: bool, one_of_many: bool
) -> Output:
    dtype = str(rng.choice([*FLOATS] * 4 + [*INTEGERS, "bool"]))
    shapes = (SHAPES, LARGE, SMALL)[rng.choice(3, p=[0.5, 0.35, 0.15])]
    shape = shapes[rng.integers(len(shapes))]
    if dtype not in FLOATS:
        kind, golden, actual, fp64 = integers(rng, dtype, shape, tolerance.tol)
    else:
        kinds = [angle] if tolerance.cosine and rng.random() < 0.7 else [
            near_allclose, near_allclose, near_rmse, near_rmse, near_rmse, nan_in_golden,
            unrelated, equal,
        ]  # fmt: skip
        # Else nearly no case of many outputs would pass.
        make = equal if one_of_many and rng.random() < 0.6 else kinds[rng.integers(len(kinds))]
        kind = make.__name__
        golden, actual, fp64 = make(rng, dtype, shape, tolerance)
        if rng.random() < 0.2:
            kind += ", sprinkled"
            sprinkle(rng, golden, actual, fp64)
    golden, actual = fit(golden, dtype), fit(actual, dtype)
    fp64_dtype = "float64" if rng.random() < 0.8 else "float32" if dtype in FLOATS else dtype
    actual_dtype = dtype if rng.random() < 0.97 else str(rng.choice(FLOATS + INTEGERS))
    return Output(
        kind, dtype, golden, actual, np.asarray(fp64) if with_fp64 else None, fp64_dtype, actual_dtype
    )  # fmt: skip


def base(rng, dtype, shape) -> np.ndarray:
    """Values of one scale, from subnormal to the largest of the type."""
    top = np.log10(float(torch.finfo(getattr(torch, dtype)).max))
    scale = rng.uniform(-top - 2, top) if rng.random() < 0.1 else rng.uniform(-5, 3)
    with np.errstate(over="ignore"):
        return np.asarray(rng.normal(size=shape) * 10.0**scale)


def some(rng, shape) -> np.ndarray:
    """A mask: all values, one of them, or half."""
    mask = np.asarray(rng.random(shape) < rng.choice([0.5, 2.0, 0.0]))
    if mask.size and not mask.any():
        mask.flat[rng.integers(mask.size)] = True
    return mask


def steps(rng, values, dtype) -> np.ndarray:
    """The values, a few units in the last place of the type further."""
    kind = {"bfloat16": "float32"}.get(dtype, dtype)
    unit = 2**16 if dtype == "bfloat16" else 1
    bits = np.array(fit(values, dtype), kind).view(f"int{np.dtype(kind).itemsize * 8}")
    with np.errstate(all="ignore"):
        moved = bits + (rng.integers(-2, 3, bits.shape) * unit).astype(bits.dtype)
        return np.asarray(moved.view(kind), np.float64)


def near_allclose(rng, dtype, shape, tolerance):
    """|golden - actual| about tol + tol * |actual|, to the last place."""
    golden = fit(base(rng, dtype, shape), dtype)
    tol = tolerance.tol * rng.choice(NEAR_ONE)
    with np.errstate(all="ignore"):
        if rng.random() < 0.5:
            moved = (golden + np.copysign(tol, golden)) / (1 - min(tol, 0.9))
        else:
            moved = (golden - np.copysign(tol, golden)) / (1 + tol)
    actual = np.where(some(rng, shape), steps(rng, moved, dtype), golden)
    # Mostly none that would let RMSE decide.
    noise = rng.choice([0.0, 1e-3, 1.0], p=[0.8, 0.1, 0.1])
    return golden, actual, golden + noise * rng.normal(size=shape)


def near_rmse(rng, dtype, shape, tolerance):
    """An error against float64 of about a multiplier times golden's, allclose being missed."""
    fp64 = base(rng, dtype, shape)
    noise = rng.normal(size=shape) * max(tolerance.tol, 1e-4) * 10 ** rng.uniform(-1, 3)
    golden = fit(fp64 + noise * rng.choice([0.0, 1.0], p=[0.15, 0.85]), dtype)
    if not golden.size:
        return golden, golden, fp64
    rmse = np.sqrt(np.mean(np.square(fp64 - golden)))
    target = (rng.choice(TRIED) * rmse + tolerance.tol / 10) * rng.choice(NEAR_ONE)
    direction = np.where(some(rng, shape), rng.normal(size=shape), 0.0)
    length = np.sqrt(np.mean(np.square(direction)))
    actual = fp64 + direction * (target / length if length else 0.0)
    return golden, actual, fp64


def nan_in_golden(rng, dtype, shape, tolerance):
    """Golden has NaN where float64 has not; actual about 4e-2 from float64."""
    fp64 = base(rng, dtype, shape)
    golden = np.where(some(rng, shape), np.nan, fp64)
    tol = 4e-2 * rng.choice(NEAR_ONE)
    moved = (fp64 + np.copysign(tol, fp64)) / (1 - tol)
    # A tie for the half type in float32, not in float64: narrowed in two steps, or in one.
    if rng.random() < 0.3:
        half = 2.0 ** {"float16": -11, "bfloat16": -8}.get(dtype, -24)
        fp64 = np.sign(fp64) * (1 + half + half * 2.0**-30)
        edge = 1 + (0 if rng.random() < 0.5 else 2 * half)
        moved = (edge + tol) / (1 - tol) * np.sign(fp64)
    return golden, np.where(some(rng, shape), steps(rng, moved, dtype), fp64), fp64


def angle(rng, dtype, shape, tolerance):
    """A cosine of about 0.99 with golden."""
    golden = np.asarray(rng.normal(size=shape) * 10 ** rng.uniform(-4, 3))
    other = np.asarray(rng.normal(size=shape))
    norm = np.linalg.norm(golden)
    if golden.size < 2:
        return golden, golden * rng.choice([1, -1, 0]), golden
    other = other - golden * np.sum(other * golden) / norm**2
    cosine = 0.99 + rng.choice([-0.1, -1e-3, -3e-5, 3e-5, 1e-3, 9e-3])
    # Rounding to a half type moves the cosine, no matter: both judge what came of it.
    sine = np.sqrt(1 - cosine**2)
    actual = cosine * golden + sine * other * norm / max(np.linalg.norm(other), 1e-300)
    return golden, actual * rng.choice([1.0, 3.0, 1e-6, 1e20]), golden


def unrelated(rng, dtype, shape, tolerance):
    return (base(rng, dtype, shape) for _ in range(3))


def equal(rng, dtype, shape, tolerance):
    values = base(rng, dtype, shape)
    return fit(values, dtype), fit(values, dtype), values


def sprinkle(rng, *arrays) -> None:
    """NaN and infinities at one place in some of the arrays, or at places of their own."""
    if not arrays[0].size:
        return
    place, value = rng.integers(arrays[0].size), rng.choice([np.nan, np.inf, -np.inf])
    together = rng.random() < 0.6
    for array in arrays:
        if rng.random() < 0.7:
            at = place if together else rng.integers(array.size)
            array.flat[at] = value if rng.random() < 0.9 else rng.choice([np.nan, np.inf])


def integers(rng, dtype, shape, tol):
    if dtype == "bool":
        golden = rng.random(shape) < 0.5
        actual = np.where(rng.random(shape) < rng.choice([0.0, 0.0, 0.01, 0.5]), ~golden, golden)
        return "bool", golden, actual, golden.astype(np.float64)
    limits = np.iinfo(dtype)
    top = float(rng.choice([10, 2000, 2**25, limits.max]))
    golden = fit(rng.uniform(max(-top, limits.min), min(top, limits.max), shape), dtype)
    wide = golden.astype(np.float64)
    change = rng.choice(["none", "one", "border"])
    if change == "none":
        return "integer, equal", golden, golden, wide
    if change == "one":
        moved = np.where(golden < limits.max, golden + np.array(1, dtype), golden)
    else:
        moved = fit((wide + tol * rng.choice(NEAR_ONE)) / (1 - min(tol, 0.9)), dtype)
    actual = np.where(some(rng, shape), moved, golden)
    return f"integer, {change}", golden, actual, wide + rng.choice([0.0, 0.3]) * rng.normal(size=shape)  # fmt: skip


# --- the two judges ------------------------------------------------------------------------------


def to_torch(values: np.ndarray, dtype: str) -> torch.Tensor:
    return torch.from_numpy(np.array(values)).to(getattr(torch, dtype))


def to_numpy(values: np.ndarray, dtype: str) -> np.ndarray:
    """As it is stored: bfloat16 widened."""
    return to_torch(values, dtype).to(torch.float32 if dtype == "bfloat16" else None).numpy()


def as_iree(rng: np.random.Generator, array: np.ndarray, dtype: str) -> np.ndarray:
    """The array as a runtime without signs, and without booleans, may give it."""
    if dtype == "bfloat16":
        return array.astype(bfloat16 if rng.random() < 0.5 else np.float32)
    if dtype == "bool":
        return array.view(rng.choice(["bool", "int8", "uint8"]))
    if dtype in INTEGERS and rng.random() < 0.5:
        return array.view(f"{'i' if array.dtype.kind == 'u' else 'u'}{array.dtype.itemsize}")
    return array


def by_torch(case: Case, trace: Trace) -> bool:
    tolerance = case.tolerance

    def record(into: list, function, value):
        def call(*args, **kwargs):
            result = function(*args, **kwargs)
            into.append(value(result, kwargs))
            return result

        return call

    golden = [to_torch(o.golden, o.dtype) for o in case.outputs]
    actual = [to_torch(o.actual, o.actual_dtype) for o in case.outputs][: -1 if case.drop else None]
    fp64 = [None if o.fp64 is None else to_torch(o.fp64, o.fp64_dtype) for o in case.outputs]
    closes = record(trace.closes, torch.allclose, lambda r, k: (k["atol"], r))
    errors = record(trace.errors, dynamo.rmse, lambda r, k: r.item())
    cosine = torch.nn.functional.cosine_similarity
    scores = record(trace.scores, cosine, lambda r, k: r.item())
    with (
        mock.patch.object(torch, "allclose", closes),
        mock.patch.object(dynamo, "rmse", errors),
        mock.patch.object(torch.nn.functional, "cosine_similarity", scores),
    ):
        return bool(
            dynamo.same(
                golden,
                actual,
                # As a whole, which is how torch's callers leave it out.
                None if any(f is None for f in fp64) else fp64,
                cos_similarity=tolerance.cosine,
                tol=tolerance.tol,
                equal_nan=True,
                use_larger_multiplier_for_smaller_tensor=tolerance.small_tensor_multiplier,
                log_error=lambda *a: trace.messages.append(str(a[0])),
            )
        )


def by_ours(case: Case, index: int) -> torch_same.Comparison:
    rng = np.random.default_rng([SEED, index, 1])
    outputs = case.outputs
    fp64 = [None if o.fp64 is None else to_numpy(o.fp64, o.fp64_dtype) for o in outputs]
    actual = [
        as_iree(rng, to_numpy(o.actual, o.dtype), o.dtype)
        if o.actual_dtype == o.dtype
        else as_other_type(to_torch(o.actual, o.actual_dtype), o.dtype)
        for o in outputs
    ]
    return torch_same.compare(
        actual[: -1 if case.drop else None],
        [to_numpy(o.golden, o.dtype) for o in outputs],
        None if any(f is None for f in fp64) else fp64,
        case.tolerance,
        [o.dtype for o in outputs],
    )


def as_other_type(tensor: torch.Tensor, dtype: str) -> np.ndarray:
    """An output of another type than golden's `dtype`: bfloat16 must not be widened to float32."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.to(torch.float16 if dtype != "float16" else torch.float64)
    return tensor.numpy()


def signless(output: Output) -> bool:
    """Types that torch tells apart and IREE's ABI does not."""
    pairs = ({"int8", "uint8"}, {"bool", "int8"}, {"bool", "uint8"}, {"bfloat16", "float32"})
    return {output.dtype, output.actual_dtype} in pairs


def tally(count: int) -> dict:
    rules = collections.Counter()
    kinds = collections.Counter()
    verdicts = collections.Counter()
    mismatches = []
    index = judged = 0
    while judged < count:
        index += 1
        case = make_case(index)
        if any(o.dtype != o.actual_dtype and signless(o) for o in case.outputs):
            continue
        judged += 1
        trace = Trace()
        torchs = by_torch(case, trace)
        ours = by_ours(case, index)
        verdict = torch_same.PASS if torchs else torch_same.FAIL
        verdicts[verdict] += 1
        if len(case.outputs) == 1:
            output = case.outputs[0]
            rules[f"{trace.rule(output, case.tolerance.tol)}: {verdict}"] += 1
            kinds[f"{output.kind}, {output.dtype}: {verdict}"] += 1
        if ours.code != verdict or bool(ours.detail) != (ours.code == torch_same.FAIL):
            mismatches.append(
                {
                    "seed": SEED,
                    "case": index,
                    "torch": verdict,
                    "ours": ours.code,
                    "detail": ours.detail,
                    "outputs": [f"{o.kind} {o.dtype} {o.golden.shape}" for o in case.outputs],
                    "tolerance": str(case.tolerance),
                    "trace": str(trace)[:500],
                }
            )
    return {
        "judged": judged,
        "verdicts": verdicts,
        "rules": rules,
        "kinds": kinds,
        "mismatches": len(mismatches),
        "first_mismatches": mismatches[:5],
        "closes": [
            closes(dtype, tol) for dtype in (*FLOATS, *INTEGERS) for tol in sorted(set(TOLS))
        ],
    }


def closes(dtype: str, tol: float, count: int = 20000) -> dict:
    """torch.isclose against ours, value by value: verdicts on tensors hide single values."""
    rng = np.random.default_rng([SEED, int(tol * 1e4), *dtype.encode()])
    top = 2.0 ** rng.choice([3, 6, 12, 24, 60], count)
    near = tol * rng.choice([*NEAR_ONE, 1, 1, 1], count)
    sign = rng.choice([-1, 1, 1, 1], count)
    if dtype in FLOATS:
        golden = fit(rng.uniform(-1, 1, count) * top * rng.choice([1e-3, 1.0], count), dtype)
    else:
        golden = fit(rng.uniform(-1, 1, count) * top, dtype).astype(np.float64)
    with np.errstate(all="ignore"):
        moved = (golden + sign * np.copysign(near, golden)) / (1 - sign * np.minimum(near, 0.9))
    actual = steps(rng, moved, dtype) if dtype in FLOATS else fit(moved, dtype)
    golden, actual = to_torch(fit(golden, dtype), dtype), to_torch(fit(actual, dtype), dtype)
    wanted = torch.isclose(golden, actual, rtol=tol, atol=tol, equal_nan=True).numpy()
    stored = torch.float32 if dtype == "bfloat16" else None
    with np.errstate(all="ignore"):
        found = torch_same._is_close(
            golden.to(stored).numpy(), actual.to(stored).numpy(), dtype, tol
        )
    return {
        "dtype": dtype,
        "tol": tol,
        "close": int(wanted.sum()),
        "of": count,
        "differ": int((found != wanted).sum()),
        "first": [
            [golden[i].item(), actual[i].item()] for i in np.flatnonzero(found != wanted)[:3]
        ],
    }


def show(index: int) -> None:
    case, trace = make_case(index), Trace()
    print(case)
    print("torch:", by_torch(case, trace), trace)
    print("ours: ", by_ours(case, index))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--case", type=int)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.case is not None:
        show(args.case)
        return
    text = json.dumps(tally(args.count), indent=2)
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
