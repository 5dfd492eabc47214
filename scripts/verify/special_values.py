"""Rejects wrong results that torch's `same` accepts: special values and integers.

By the rules of `same`, a NaN or infinity in golden makes any output pass (both errors against float64
are NaN, or the allowed error is infinite), and integers may differ by the tolerance, in float32. Here
an output must have the same special value where golden has it, or the correct value if float64 shows
that golden only left the range of its type. Integers must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Arrays = list[np.ndarray]


def settle(
    actual: Sequence[np.ndarray],
    golden: Sequence[np.ndarray],
    fp64: Sequence[np.ndarray] | None,
    names: Sequence[str],
) -> tuple[list[str], Arrays, Arrays, Arrays | None]:
    """The errors found, one text per output, and the three lists for torch_same.compare.

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
    problem = _first(
        special & ~alike & ~mended, plain, want, "values are not the NaN or infinity of golden"
    )

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
