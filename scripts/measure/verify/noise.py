"""The comparison for models that round while they run: correct programs differ by noise and nothing else.

If activations are rounded to 8 bits in every call, another order of summation rounds some of them
differently, and every following layer adds more such differences. Two correct programs then differ by
several percent, and no elementwise tolerance can distinguish that from a wrong program. But the
differences have no structure: they have the same size everywhere, no bias and no outliers. Each of these
properties is bounded, by what correct programs were measured to need (docs/quantization.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

PEAK = 8.0
"""Largest single difference, in units of the allowed RMS. Of a million normal values the largest is
at 5 standard deviations; correct programs reached 6 of their own."""

TOP = 2.0
"""RMS of the differences of the largest values, in units of the allowed RMS."""

ROW = 2.0
"""RMS of the differences of a row (of the last axis), in units of what is allowed at the row's own RMS. Rows smaller than
the noise of the output count as that large."""

BIAS = 0.2
"""Scale and offset against the reference, in units of the allowed RMS."""

TOP_SHARE = 1e-3
"""The part of an output that counts as its largest values; at least `TOP_LEAST` of them."""
TOP_LEAST = 16

LEVELS = 0.5
"""Distinct values, as a part of golden's. Values rounded to bfloat16 or 8 bits have far fewer."""


def judge(got: np.ndarray, want: np.ndarray, fp64: np.ndarray | None, noise: float) -> str:
    """The error message about one floating-point output, or "".

    `got`, `want` (golden) and `fp64` (golden in float64, with the same rounding) have one shape.
    `noise` is the allowed RMS difference from each of the two references, in units of golden's RMS.
    """
    scale = _rms(want)
    if scale == 0:
        return "golden is zero everywhere, so noise has no scale"
    return next(_problems(got, want, fp64, noise, scale), "")


def _problems(
    got: np.ndarray, want: np.ndarray, fp64: np.ndarray | None, noise: float, scale: float
) -> Iterator[str]:
    """A message about each bound that is exceeded, the most informative first."""
    references = {"golden": want} | ({} if fp64 is None else {"float64": fp64})
    for name, reference in references.items():
        errors = (got.astype(np.float64) - reference.astype(np.float64)) / scale
        if not np.isfinite(errors).all():
            yield f"not finite where {name} is"
            return
        allowed = noise * (BIAS + 4 / np.sqrt(errors.size))
        for what, bias in _bias(errors, reference / scale):
            if abs(bias) > allowed:
                yield f"{what} against {name} {bias:+.3%}, allowed ±{allowed:.3%}"
        largest = float(np.abs(errors).max())
        if largest > PEAK * noise:
            yield (
                f"largest difference from {name} {largest:.3g} × golden's RMS, allowed "
                f"{PEAK * noise:.3g}"
            )
        if (distance := _rms(errors)) > noise:
            yield f"RMS difference from {name} {distance:.3%} of golden's RMS, allowed {noise:.3%}"
        if row := _worst_row(errors, reference / scale, noise):
            yield f"RMS difference of row {row[0]} from {name} {row[1]:.3%} of golden's RMS, allowed {row[2]:.3%}"
        top = _rms(errors.ravel()[_largest(want)])
        if top > TOP * noise:
            yield (
                f"RMS difference of the largest values from {name} {top:.3%} of golden's RMS, "
                f"allowed {TOP * noise:.3%}"
            )
    levels, expected = (len(np.unique(array)) for array in (got, want))
    if levels < LEVELS * expected:
        yield f"{levels} distinct values, golden has {expected}: it was rounded"


def _worst_row(
    errors: np.ndarray, reference: np.ndarray, noise: float
) -> tuple[list[int], float, float] | None:
    """The row whose differences exceed what it may have by most: its index, their RMS, and what is allowed; None if none
    does. Rows of few values have no RMS of their own."""
    if errors.ndim < 2 or errors.shape[-1] < TOP_LEAST:
        return None
    distances = np.sqrt(np.mean(np.square(errors), axis=-1))
    sizes = np.sqrt(np.mean(np.square(reference.astype(np.float64)), axis=-1))
    allowed = ROW * noise * np.maximum(sizes, noise)
    at = np.unravel_index(int(np.argmax(distances / allowed)), allowed.shape)
    if distances[at] <= allowed[at]:
        return None
    return [int(i) for i in at], float(distances[at]), float(allowed[at])


def _bias(errors: np.ndarray, reference: np.ndarray) -> list[tuple[str, float]]:
    """Slope and offset of the straight line through the errors over the reference."""
    centred = reference.astype(np.float64) - reference.mean(dtype=np.float64)
    spread = float(np.square(centred).sum())
    slope = float((errors * centred).sum()) / spread if spread else 0.0
    offset = float(errors.mean()) - slope * float(reference.mean(dtype=np.float64))
    return [("scale", slope), ("offset", offset)]


def _largest(want: np.ndarray) -> np.ndarray:
    """Flat indices of golden's largest values: if the output is logits, the top logits."""
    count = min(want.size, max(TOP_LEAST, int(want.size * TOP_SHARE)))
    return np.argpartition(want.ravel(), want.size - count)[-count:]


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values.astype(np.float64)))))
