"""Compares a runtime's outputs with golden by the rules of `torch._dynamo.utils.same`.

PyTorch's benchmarks judge compilers by that function. Here its rules are implemented in numpy, for
stages without torch. tests/pipeline/test_compare_with_torch.py compares the verdicts with torch's own
(torch 2.15, on the CPU). In `same`, ref is golden and res is actual.

Two differences are intended: another shape fails here, while torch's allclose broadcasts; and types
that IREE's ABI does not distinguish are one type (see `_stored`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scripts.core.tensors import DTYPES
from scripts.measure.verify import noise, scaling
from scripts.measure.verify.verification import FAIL, PASS

TOLERANCES = {"f32": 1e-3, "f16": 1e-3, "bf16": 1e-2}
"""Absolute and relative tolerance of outputs by the model's dtype.

From PyTorch's benchmarks/dynamo, for inference: 1e-3 is its tolerance in half precision, 1e-2 that
of models which need a higher one. Its 1e-4 for float32 compares a compiler with eager on the same
device. Kernels of other devices sum in another order, and have 1e-3 here.
"""


TRAIN_TOLERANCES = {"f32": 1e-2, "f16": 4e-2, "bf16": 4e-2}
"""The tolerance of losses and gradients: that of PyTorch's benchmarks/dynamo for training (1e-2, and
4e-2 for models that need more). A gradient is discontinuous where an activation is close to zero: in
ResNet-18 another order of summation changes single values by a thousandth, in inductor and in XLA.
"""


_HALF = ("float16", "bfloat16")
_LOOSE_TOL = 4e-2  # where golden is NaN and float64 is not
_LEAST_COSINE = np.float32(0.99)
_LEAST_NORM = np.float32(1e-6)


@dataclass(frozen=True)
class Tolerance:
    """How far outputs may be from golden.

    `tol` is absolute and relative (a pure number, in the units of the output). `cosine`: use cosine
    similarity instead of the RMSE rule. `small_tensor_multiplier` is torch's
    `use_larger_multiplier_for_smaller_tensor`: a larger allowed error against float64 for outputs below
    1000 values. `noise`, which torch does not have, replaces the RMSE rule for floating-point outputs
    (noise.py): the RMS difference that correct programs may have, in units of golden's RMS.
    Raises ValueError if tol or noise is negative or not finite.
    """

    tol: float
    cosine: bool = False
    small_tensor_multiplier: bool = False
    noise: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("tolerance", self.tol), ("noise", self.noise or 0.0)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} {value}: not a finite number from 0 up")


@dataclass(frozen=True)
class Comparison:
    """Verdict over all outputs together.

    `max_abs_error` is against golden, `rmse_vs_fp64` against the float64 reference; either is None if
    it is not finite: where only one of two values is finite, or NaN, the error is infinite. `detail` names the output that failed and by how much.
    """

    code: str
    detail: str
    max_abs_error: float | None
    rmse_vs_fp64: float | None


@dataclass(frozen=True)
class _Output:
    """One output, ready to be compared: shapes agree, and types are golden's, as `_stored` gives them.

    `fp64` is None if the RMSE rule does not apply. The values are scaled by 2**-exponent, except
    `plain`: actual and golden without scaling.
    """

    got: np.ndarray
    want: np.ndarray
    fp64: np.ndarray | None
    dtype: str
    exponent: int
    plain: tuple[np.ndarray, np.ndarray]


def compare(
    actual: Sequence[np.ndarray],
    golden: Sequence[np.ndarray],
    fp64: Sequence[np.ndarray] | None,
    tolerance: Tolerance,
    dtypes: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    scale: scaling.Scale | None = None,
) -> Comparison:
    """Compare outputs one by one: count, type, shape, then values as `same(equal_nan=True)` does.

    `dtypes` are torch's names of golden's types (default: numpy's), `names` are for `detail`.
    With `scale` (see scaling.py) small outputs are scaled first; errors and values are reported without
    scaling. Raises ValueError if golden, fp64, dtypes and names do not fit each other.
    """
    actual, golden = [np.asarray(a) for a in actual], [np.asarray(g) for g in golden]
    reference = None if fp64 is None else [np.asarray(f) for f in fp64]
    wide: Sequence[np.ndarray | None] = [None] * len(golden) if reference is None else reference
    dtypes = [g.dtype.name for g in golden] if dtypes is None else list(dtypes)
    names = [f"output {i}" for i in range(len(golden))] if names is None else list(names)
    if not len(golden) == len(wide) == len(dtypes) == len(names):
        raise ValueError(
            f"{len(golden)} golden outputs, {len(wide)} in float64, {len(dtypes)} dtypes, "
            f"{len(names)} names"
        )
    problems: list[str] = []
    if len(actual) != len(golden):
        problems.append(f"{len(actual)} outputs, expected {len(golden)}")
    comparable: list[tuple[np.ndarray, np.ndarray]] = []
    exponents = [0] * len(golden) if scale is None else scaling.exponents(golden, scale, fp64)
    for name, got, want, exact, dtype, exponent in zip(
        names, actual, golden, wide, dtypes, exponents, strict=False
    ):
        output = _prepare(got, want, exact, dtype, exponent)
        problem = output if isinstance(output, str) else _judge(output, tolerance)
        if isinstance(output, _Output):
            comparable.append(output.plain)
        if problem:
            problems.append(f"{name}: {problem}")
    errors = [float(_differences(got, want).max()) for got, want in comparable if got.size]
    distance = None
    if reference is not None and len(comparable) == len(actual) == len(golden):
        pairs = zip(comparable, reference, strict=True)
        if all(want.shape == exact.shape for (_, want), exact in pairs):
            distance = rmse([got for got, _ in comparable], reference)
    return Comparison(
        code=FAIL if problems else PASS,
        detail="; ".join(problems[:3]),
        max_abs_error=_finite(max(errors)) if errors else None,
        rmse_vs_fp64=distance,
    )


def rmse(actual: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> float | None:
    """Root mean square error over all elements of all outputs, without those that are the same infinity or NaN in both; None if
    it is not finite."""
    total = count = 0.0
    for got, want in zip(actual, reference, strict=True):
        difference, compared = _differences(got, want), np.isfinite(got) | np.isfinite(want)
        with np.errstate(over="ignore"):
            total += float(np.square(difference[compared]).sum())
        count += int(compared.sum())
    return _finite(math.sqrt(total / count)) if count else None


def _prepare(
    got: np.ndarray, want: np.ndarray, fp64: np.ndarray | None, dtype: str, exponent: int
) -> _Output | str:
    """Return the output in golden's type and shape, or a text about how it differs."""
    if dtype not in DTYPES:
        raise ValueError(f"no rule for {dtype}")
    stored = _stored(want, dtype)
    if stored is None:
        raise ValueError(f"golden is stored as {want.dtype.name}, but its type is {dtype}")
    typed = _stored(got, dtype)
    if typed is None:
        return f"{got.dtype.name}, expected {dtype}"
    if typed.shape != stored.shape:
        return f"shape {typed.shape}, expected {stored.shape}"
    # Without a float64 reference torch uses golden, which matters if golden is float64.
    fp64 = stored if fp64 is None else fp64
    if fp64.dtype != np.float64 or fp64.shape != stored.shape:
        fp64 = None
    return _Output(
        scaling.shift(typed, exponent),
        scaling.shift(stored, exponent),
        None if fp64 is None else scaling.shift(fp64, exponent),
        dtype,
        exponent,
        (typed, stored),
    )


def _stored(array: np.ndarray, dtype: str) -> np.ndarray | None:
    """The array as torch's `dtype`, or None if it has another type.

    bfloat16 is stored as float32. IREE's ABI has no signs, so an integer of the other signedness is
    reinterpreted, and a byte is accepted as a boolean (non-zero is true, stored as 0 or 1).
    """
    name = array.dtype.name
    if dtype == "bfloat16":
        return array.astype(np.float32) if name in ("bfloat16", "float32") else None
    if dtype == "bool":
        return (array != 0).astype(np.uint8) if name in ("bool", "int8", "uint8") else None
    kind = np.dtype(dtype)
    if array.dtype.kind in "iu" and kind.kind in "iu" and array.dtype.itemsize == kind.itemsize:
        return array.view(kind)
    return array if array.dtype == kind else None


def _judge(output: _Output, tolerance: Tolerance) -> str:
    """What is wrong with the values, or ""."""
    # Infinity against infinity, values beyond a half type's range: the rules are about those.
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        # A boolean is compared as uint8 (its dtype is then that of an integer), never by cosine.
        if tolerance.cosine and output.dtype != "bool":
            return _judge_by_cosine(output, tolerance.tol)
        close = _is_close(output.want, output.got, output.dtype, tolerance.tol)
        if close.all():
            return ""
        beyond = _describe(output, close, tolerance.tol)
        if output.dtype == "bool":
            return beyond
        if tolerance.noise is not None and scaling.is_floating(output.want):
            return noise.judge(output.got, output.want, output.fp64, tolerance.noise)
        if output.fp64 is None:
            return f"{beyond}; no float64 reference to compare it with"
        if _only_golden_is_nan(output, output.fp64):
            return ""
        distance = _judge_by_rmse(output, output.fp64, tolerance)
        return f"{beyond}; {distance}" if distance else ""


def _is_close(want: np.ndarray, got: np.ndarray, dtype: str, tol: float) -> np.ndarray:
    """torch.isclose(want, got, rtol=tol, atol=tol, equal_nan=True), value by value.

    The relative part is of `got`, not of golden. All is computed in the tensor's own type:

    - half types: in float32, rounded after each operation; the addend too is rounded to the half
      type first, the factor is not (so torch's kernels do it);
    - integers: in float32, unless they are equal or tol is 0. At 1e-3, 1000 passes for 1001.

    Equal infinities are close, an infinite error never is.
    """
    close = (want == got) | (np.isnan(want) & np.isnan(got))
    if tol == 0:
        return close
    wide = np.dtype("float64" if dtype == "float64" else "float32")
    first, second = want.astype(wide), got.astype(wide)
    factor = np.asarray(tol, wide)
    addend = _round(factor, dtype)
    allowed = _round(_round(np.abs(factor * second), dtype) + addend, dtype)
    error = _round(np.abs(first - second), dtype)
    return close | (np.isfinite(error) & (error <= allowed))


def _round(values: np.ndarray, dtype: str) -> np.ndarray:
    """Float32 values rounded to a half type, ties to even; other types are left as they are."""
    if dtype == "float16":
        return values.astype(np.float16).astype(np.float32)
    if dtype != "bfloat16":
        return values
    bits = np.asarray(values, np.float32).view(np.uint32)
    # Half a unit of the upper 16 bits, less one where they are even. Infinity stays as it is.
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    upper = (rounded & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), upper)


def _only_golden_is_nan(output: _Output, fp64: np.ndarray) -> bool:
    """Whether actual is better than golden: it has no NaN and is roughly equal to a float64 without NaN."""
    # A NaN of actual is not close to a number.
    if np.isnan(fp64).any() or not np.isnan(output.want).any():
        return False
    # Through float32, as torch narrows float64 to a half type: it rounds twice.
    narrow = fp64
    if output.dtype != "float64":
        narrow = _round(narrow.astype(np.float32), output.dtype)
    return bool(_is_close(narrow, output.got, output.dtype, _LOOSE_TOL).all())


def _judge_by_rmse(output: _Output, fp64: np.ndarray, tolerance: Tolerance) -> str:
    """Whether actual is about as close to float64 as golden is: "", or by how much it is not.

    If both distances are NaN it passes, as in torch: with a NaN in golden and in float64, or with the
    same infinity in both, this rule ignores all other values of that output.
    """
    golden_error = _distance(fp64, output.want)
    error = _distance(fp64, output.got)
    multiplier = _multiplier(output, tolerance)
    if error <= multiplier * golden_error + tolerance.tol / 10:
        return ""
    if math.isnan(golden_error) and math.isnan(error):
        return ""
    return (
        f"RMSE against float64 {_number(error, output.exponent)}, allowed {multiplier:g} × golden's "
        f"{_number(golden_error, output.exponent)} + tol/10{_of_scale(output.exponent)}"
    )


def _distance(fp64: np.ndarray, other: np.ndarray) -> float:
    """Root mean square of the difference in float64; NaN or infinite where any value is."""
    return float(np.sqrt(np.mean(np.square(fp64 - other.astype(np.float64)))))


def _multiplier(output: _Output, tolerance: Tolerance) -> float:
    """The factor of golden's own distance from float64 that is allowed.

    It is larger for half types, for few values and for 1x1 kernels, where noise dominates, and for
    models that need it according to tol.
    """
    size, shape = output.want.size, output.want.shape
    if tolerance.small_tensor_multiplier and size <= 10:
        return 10.0
    if tolerance.small_tensor_multiplier and size < 1000:
        return 8.0
    pointwise = len(shape) == 4 and shape[-1] == shape[-2] == 1
    if size < 1000 or pointwise or tolerance.tol >= 2e-2 or output.dtype in _HALF:
        return 3.0
    return 2.0


def _judge_by_cosine(output: _Output, tol: float) -> str:
    """The angle between actual and golden as flat float32 vectors; what is wrong, or ""."""
    got, want = output.got.astype(np.float32).ravel(), output.want.astype(np.float32).ravel()
    # Zeros and NaN have no angle.
    close = _is_close(want, got, "float32", tol)
    if close.all():
        return ""
    # Euclidean norms in float32 (infinite from about 1e19 on, as torch's), not below 1e-6.
    norms = [np.maximum(np.sqrt(np.sum(np.square(v))), _LEAST_NORM) for v in (want, got)]
    cosine = np.sum((want / norms[0]) * (got / norms[1]))
    if cosine >= _LEAST_COSINE:
        return ""
    return (
        f"cosine similarity {cosine:.6g}, expected at least {_LEAST_COSINE:g}; "
        f"{_describe(output, close.reshape(output.want.shape), tol)}"
    )


def _describe(output: _Output, close: np.ndarray, tol: float) -> str:
    """How many values exceed tol, and the worst of them, in golden's own units."""
    error = np.abs(output.got.astype(np.float64) - output.want.astype(np.float64))
    # NaN where golden has a number, or the reverse, is the worst error. -1: not examined.
    error = np.where(close, -1.0, np.where(np.isnan(error), np.inf, error))
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    got, want = (_value(array[at], output) for array in (output.got, output.want))
    return (
        f"{int((~close).sum())} of {close.size} values beyond tol {tol:g}"
        f"{_of_scale(output.exponent)}, worst at {[int(i) for i in at]}: {got}, expected {want}"
    )


def _value(value: np.generic, output: _Output) -> str:
    if output.dtype == "bool":
        return str(bool(value))
    if isinstance(value, np.integer):
        return str(int(value))
    return _number(float(value), output.exponent)


def _number(value: float, exponent: int) -> str:
    """A float as it was before `scaling.shift`."""
    return f"{math.ldexp(value, exponent) if math.isfinite(value) else value:.6g}"


def _of_scale(exponent: int) -> str:
    return f" × 2**{exponent}" if exponent else ""


def _differences(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The absolute difference of each two values, in float64: 0 for the same infinity and for two NaNs, and infinite where only
    one of the two is a NaN."""
    first, second = np.asarray(got, np.float64), np.asarray(want, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(first - second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
