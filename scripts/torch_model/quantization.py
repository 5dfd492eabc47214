"""The error and the size of a quantised model, compared with the float model that it approximates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from scripts.torch_model import convert, errors
from scripts.torch_model.loading import LoadedModel
from scripts.torch_model.weights import named_weights


def report(loaded: LoadedModel, outputs: Sequence[np.ndarray]) -> dict | None:
    """`float_bytes` and `sqnr_db` of a model whose file has get_float_model(); else None.

    `outputs` are those of the quantised model in eager mode. The float model is built here and runs on
    the same inputs. Only the inputs of `loaded` are used, so the caller can release the quantised model
    before, and the two are never in memory together. Raises ModelError if the outputs of the two
    differ in number or shape.
    """
    file = loaded.file
    if file is None or "get_float_model" not in file.functions:
        return None
    module = file.build("get_float_model")
    weights, _ = named_weights(module)
    float_bytes = sum(w.numel() * w.element_size() for w in weights.values())
    del weights
    with torch.no_grad():
        computed = module(*loaded.args, **loaded.kwargs)
    reference = [convert.to_numpy(tensor) for _, tensor in convert.flat_tensors(computed)]
    shapes = [[list(a.shape) for a in arrays] for arrays in (reference, outputs)]
    if shapes[0] != shapes[1]:
        raise errors.ModelError(
            f"{file.path}: get_float_model() gives outputs of shapes {shapes[0]}, expected those of "
            f"get_model(): {shapes[1]}",
            errors.Fault.OUTPUTS,
        )
    return {"float_bytes": float_bytes, "sqnr_db": sqnr_db(reference, outputs)}


def sqnr_db(reference: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> float | None:
    """Signal to quantisation noise over all floating-point outputs together, in decibels.

    10 · log10(Σ reference² / Σ (reference − output)²), summed in float64: torch.ao.ns's
    compute_sqnr, 20 · log10(‖x‖ / ‖x − y‖). None where either sum is 0 or not finite.
    """
    signal = noise = 0.0
    for want, got in zip(reference, outputs, strict=True):
        if want.dtype.kind != "f":
            continue
        wide = want.astype(np.float64)
        signal += float(np.square(wide).sum())
        noise += float(np.square(wide - got.astype(np.float64)).sum())
    if not (0 < signal < math.inf and 0 < noise < math.inf):
        return None
    return 10 * math.log10(signal / noise)
