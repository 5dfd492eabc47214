"""Hold outputs to a model's reference: the same way for IREE and every baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from scripts.lib import compare, tensors
from scripts.lib.measurement import Verification

NONDETERMINISTIC = "NONDETERMINISTIC_EAGER_RUN"


def verify(
    outputs: Sequence[np.ndarray],
    golden_path: Path,
    signature: tensors.Signature,
    tolerance: Mapping[str, float],
) -> Verification:
    """Compare with golden under the tolerance of the model's dtype, or the model's own."""
    stored = tensors.load_npz(golden_path)
    count = len(signature.outputs)
    limits = {**compare.TOLERANCES[signature.dtype], **tolerance}
    result = compare.compare(
        [np.asarray(output) for output in outputs],
        [stored[f"golden.{i}"] for i in range(count)],
        [stored[f"fp64.{i}"] for i in range(count)] if signature.has_fp64 else None,
        **limits,
    )
    code, detail = result.code, result.detail
    if not signature.deterministic:
        code, detail = NONDETERMINISTIC, "two eager runs of the model differ: no golden output"
    return Verification(
        code=code,
        detail=detail,
        max_abs_error=result.max_abs_error,
        rmse_vs_fp64=result.rmse_vs_fp64,
        golden_rmse_vs_fp64=signature.rmse_vs_fp64,
        **limits,
    )
