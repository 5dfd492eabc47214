"""The result of an operator problem by BackendBench's criterion, beside this project's verification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scripts.features.operators.problems import scores
from scripts.verify.verify import Expected


def judged(outputs: Sequence[np.ndarray], expected: Expected) -> dict[str, Any]:
    """Return `backendbench_correct`, and the largest absolute and relative errors.

    The errors are over all values of all outputs; they are None if outputs have other shapes than
    eager's, or if no value can be compared. A relative error is that of a value other than 0.
    """
    golden = list(expected.golden)
    dtypes = [kind.dtype for kind in expected.types]
    found: dict[str, Any] = {
        "backendbench_correct": scores.is_correct(outputs, golden, dtypes),
        "max_abs_error": None,
        "max_rel_error": None,
    }
    if [np.shape(one) for one in outputs] != [one.shape for one in golden]:
        return found
    for got, want in zip(outputs, golden, strict=True):
        exact = want.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(np.asarray(got).astype(np.float64) - exact)
        finite = np.isfinite(error)
        _keep_largest(found, "max_abs_error", error[finite])
        compared = finite & (exact != 0)
        _keep_largest(found, "max_rel_error", error[compared] / np.abs(exact[compared]))
    return found


def _keep_largest(found: dict[str, Any], key: str, errors: np.ndarray) -> None:
    if errors.size:
        found[key] = max(found[key] or 0.0, float(errors.max()))
