"""Compares results with a model's golden ones, in the same way for IREE and every baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.core import extra, tensors
from scripts.core.commands import option
from scripts.measure.verify import greedy_tokens, local_errors, scaling, torch_same, verification
from scripts.measure.verify.verification import Verification


@dataclass(frozen=True)
class Expected:
    """What results are compared with: types and golden values in order, and float64 values if they exist."""

    types: Sequence[tensors.TensorType]
    golden: Sequence[np.ndarray]
    fp64: Sequence[np.ndarray] | None
    deterministic: bool
    dtype: str
    """The dtype of the computation (f32, f16, bf16), which determines the default tolerance."""


@dataclass(frozen=True)
class Check:
    """What results are compared with, as fields of a request: files of the reference (or gradients) stage. `tolerance` has the
    values that differ from the default (torch_same.Tolerance)."""

    golden: Path = option(help="golden.npz")
    signature: Path = option(help="signature.json")
    tolerance: Mapping[str, Any] = option(
        factory=dict, help='JSON: {"tol": 1e-3}, {"cosine": true} or {"noise": 0.05}'
    )

    def read_signature(self) -> tensors.Signature:
        return tensors.Signature.read(self.signature)

    def expected(self, without: str = "") -> Expected:
        """What the files have. `without`: the beginning of the names of results that are left out."""
        signature, stored = self.read_signature(), tensors.load_npz(self.golden)
        kept = [
            (number, kind)
            for number, kind in enumerate(signature.outputs)
            if not without or not kind.name.startswith(without)
        ]
        return Expected(
            types=[kind for _, kind in kept],
            golden=[stored[f"golden.{number}"] for number, _ in kept],
            fp64=[stored[f"fp64.{number}"] for number, _ in kept] if signature.has_fp64 else None,
            deterministic=signature.deterministic,
            dtype=signature.dtype,
        )


def verify(
    outputs: Sequence[np.ndarray],
    expected: Expected,
    tolerance: Mapping[str, Any],
    names: Sequence[str] | None = None,
) -> Verification:
    """Compare with golden under the tolerance of the dtype, or the model's own.

    `names`: the names of the outputs if these are the loss and gradients of a training step. They are
    sorted into golden's order.
    """
    default = torch_same.TOLERANCES if names is None else torch_same.TRAIN_TOLERANCES
    allowed = torch_same.Tolerance(**{"tol": default[expected.dtype], **tolerance})
    if names is not None and allowed.noise is not None:
        # Noise was measured for outputs. Gradients have torch's rule with an equivalent tolerance.
        allowed = dataclasses.replace(allowed, tol=max(allowed.tol, 2 * allowed.noise), noise=None)
    actual = [np.asarray(output) for output in outputs]
    wanted = [kind.name for kind in expected.types]
    if names is not None and sorted(names) != sorted(wanted):
        odd = sorted(set(names) ^ set(wanted))[0]
        detail = f"{'no' if odd in wanted else 'an unexpected'} {odd}"
        detail += f" ({len(names)} results, expected {len(wanted)})"
        result = torch_same.Comparison(verification.FAIL, detail, None, None)
    else:
        if names is not None:
            by_name = dict(zip(names, actual, strict=True))
            actual = [by_name[name] for name in wanted]
        # A training step has no such bound: an activation close to zero changes single gradients.
        local_tol = None
        if names is None and not allowed.cosine and allowed.noise is None:
            local_tol = tolerance.get("tol", local_errors.TOLERANCES[expected.dtype])
        result = _judge(actual, expected, allowed, local_tol)
    code, detail = result.code, result.detail
    if not expected.deterministic:
        code = verification.NONDETERMINISTIC
        detail = "two eager runs of the model differ: no golden output"
    own = torch_same.rmse(expected.golden, expected.fp64) if expected.fp64 is not None else None
    return Verification(
        code=code,
        detail=detail,
        max_abs_error=result.max_abs_error,
        rmse_vs_fp64=result.rmse_vs_fp64,
        golden_rmse_vs_fp64=own,
        tol=allowed.tol,
        cosine=allowed.cosine,
        noise=allowed.noise,
    )


def follow_generation(
    passed: Verification,
    call: greedy_tokens.Call,
    inputs: Sequence[np.ndarray],
    signature: tensors.Signature,
    left_out: dict[str, str],
) -> Verification:
    """A passed verification, after comparing the greedy tokens of a language model as well.

    `call` computes the program's outputs for other inputs than `inputs`, those of the reference. If there is no way to make further
    inputs of the outputs, nothing is compared, and `left_out` says why (core/extra.py). A call that fails is an error of the program.
    """
    if not signature.generation or passed.code != verification.PASS:
        return passed
    expected = greedy_tokens.Generation(**signature.generation)
    try:
        matched, problem = greedy_tokens.follow(
            call, inputs, signature.inputs, signature.outputs, expected, passed.tol, passed.noise
        )
    except greedy_tokens.NotFollowed as error:
        extra.leave_out(extra.GREEDY, str(error), left_out)
        return passed
    return dataclasses.replace(
        passed,
        code=verification.FAIL if problem else verification.PASS,
        detail=problem or passed.detail,
        greedy_tokens=matched,
        greedy_expected=expected.steps,
    )


def _judge(
    actual: Sequence[np.ndarray],
    expected: Expected,
    allowed: torch_same.Tolerance,
    local_tol: float | None,
) -> torch_same.Comparison:
    """Compare by the rules of torch's `same` and by this project's additional ones.

    Errors of single elements and rows are bounded by `local_tol`, if it is given, where float64 shows eager's rounding.
    """
    given = [kind.name for kind in expected.types]
    names = [name or f"output {number}" for number, name in enumerate(given)]
    problems, outputs, golden, fp64 = settle_special_values(
        actual, expected.golden, expected.fp64, names
    )
    dtypes = [kind.dtype for kind in expected.types]
    scale = scaling.scale_of(given)
    result = torch_same.compare(outputs, golden, fp64, allowed, dtypes, names, scale=scale)
    accepted = result.code == torch_same.PASS and not problems
    if accepted and fp64 is not None and local_tol is not None:
        problems = local_errors.problems(outputs, golden, fp64, dtypes, names, local_tol)
    if not problems:
        return result
    detail = "; ".join([*problems, *filter(None, [result.detail])][:3])
    if any(_OTHER_SPECIAL in problem for problem in problems):  # these errors are infinite
        result = dataclasses.replace(result, max_abs_error=None, rmse_vs_fp64=None)
    return dataclasses.replace(result, code=verification.FAIL, detail=detail)


Arrays = list[np.ndarray]
_OTHER_SPECIAL = "values are not the NaN or infinity of golden"


def settle_special_values(
    actual: Sequence[np.ndarray],
    golden: Sequence[np.ndarray],
    fp64: Sequence[np.ndarray] | None,
    names: Sequence[str],
) -> tuple[list[str], Arrays, Arrays, Arrays | None]:
    """Find wrong special values and integers that torch's `same` accepts: return the errors, one text per output, and
    the three lists for torch_same.compare.

    By the rules of `same`, a NaN or infinity in golden makes any output pass (both errors against float64
    are NaN, or the allowed error is infinite), and integers may differ by the tolerance, in float32. Here
    an output must have the same special value where golden has it, or the correct value if float64 shows
    that golden only left the range of its type. Integers must be equal.

    In these lists golden is finite: correct special values are 0 in all three, and those that float64
    corrects are replaced by float64's. Outputs of another shape, and outputs that golden does not have,
    are left for torch_same.compare to report.
    """
    problems: list[str] = []
    kept, expected, reference = list(actual), list(golden), None if fp64 is None else list(fp64)
    for i, (name, got, want) in enumerate(zip(names, actual, golden, strict=False)):
        if got.shape != want.shape:
            continue
        if want.dtype.kind != "f":
            problem = _exact(got, want)
        else:
            wide = None if fp64 is None or fp64[i].shape != want.shape else fp64[i]
            problem, kept[i], expected[i], wide = _special(got, want, wide)
            if reference is not None and wide is not None:
                reference[i] = wide
        if problem:
            problems.append(f"{name}: {problem}")
    return problems, kept, expected, reference


def _special(
    got: np.ndarray, want: np.ndarray, fp64: np.ndarray | None
) -> tuple[str, np.ndarray, np.ndarray, np.ndarray | None]:
    """One floating-point output: the problem, if any, and the output without special values."""
    special = ~np.isfinite(want)
    if not special.any():
        return "", got, want, fp64
    plain = got.astype(np.float64)
    alike = special & ((plain == want) | (np.isnan(plain) & np.isnan(want)))
    with np.errstate(over="ignore", invalid="ignore"):
        corrected = want if fp64 is None else fp64.astype(want.dtype)
    mended = special & ~alike & np.isfinite(corrected)
    problem = _first(special & ~alike & ~mended, plain, want, _OTHER_SPECIAL)

    def at_rest(array: np.ndarray) -> np.ndarray:
        return np.where(special & ~mended, np.zeros((), array.dtype), array)

    golden = at_rest(np.where(mended, corrected, want))
    return problem, at_rest(got), golden, None if fp64 is None else at_rest(fp64)


def _exact(got: np.ndarray, want: np.ndarray) -> str:
    """Compare integers and booleans as bits: IREE's ABI does not distinguish signs and booleans."""
    if want.dtype.kind == "b" or got.dtype.kind == "b":
        got, want = got.astype(np.uint8), want.astype(np.uint8)
    elif got.dtype.kind not in "iu" or got.dtype.itemsize != want.dtype.itemsize:
        return ""  # another type: torch_same.compare names it
    else:
        got = got.view(want.dtype)
    return _first(got != want, got, want, "integers differ")


def _first(wrong: np.ndarray, got: np.ndarray, want: np.ndarray, what: str) -> str:
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} {what}; first at {list(at)}: "
        f"{got[at]}, expected {want[at]}"
    )
