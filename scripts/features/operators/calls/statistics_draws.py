"""Values that a forward operator saves for its backward operator, computed from the inputs."""

from __future__ import annotations

import math

import numpy as np
import torch

from scripts.features.operators.calls.draws import Draw, positive, softmax, wide

_EPSILON = 1e-5


def softmax_output(draw: Draw) -> np.ndarray:
    """Return probabilities along dimension `dim`."""
    return softmax(wide(draw), int(draw.argument("dim"))) if draw.shape else np.ones(())


def log_softmax_output(draw: Draw) -> np.ndarray:
    """Return logarithms of probabilities along dimension `dim`, or over classes."""
    if not draw.shape:
        return np.zeros(())
    dim = draw.argument("dim")
    axis = int(dim) if dim is not None else (1 if len(draw.shape) > 1 else 0)
    return np.log(softmax(wide(draw), axis))


def layer_norm(draw: Draw) -> torch.Tensor:
    """Return `mean` or `rstd` of `input` over the dimensions of `normalized_shape`."""
    rows = draw.made("input").float()
    axes = list(range(rows.dim() - len(draw.argument("normalized_shape")), rows.dim()))
    return _moment(draw, rows.mean(axes), rows.var(axes, unbiased=False))


def group_norm(draw: Draw) -> torch.Tensor:
    """Return `mean` or `rstd` of `input` per sample and group."""
    groups = int(draw.argument("group"))
    rows = draw.made("input").float().reshape(int(draw.argument("N")), groups, -1)
    return _moment(draw, rows.mean(2), rows.var(2, unbiased=False))


def batch_norm(draw: Draw) -> torch.Tensor | np.ndarray:
    """Return `save_mean` or `save_invstd` of `input` per channel."""
    rows = draw.made("input").float()
    if math.prod(draw.shape) != rows.shape[1]:
        return positive(draw)
    axes = [axis for axis in range(rows.dim()) if axis != 1]
    return _moment(draw, rows.mean(axes), rows.var(axes, unbiased=False))


def _moment(draw: Draw, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    is_mean = "mean" in draw.spec.argument
    found = mean if is_mean else (variance + _EPSILON).rsqrt()
    return found.reshape(draw.shape)


def attention(draw: Draw) -> torch.Tensor:
    """Return `out` or `logsumexp` of attention, for its backward operator."""
    given = {
        name: draw.argument(name)
        for name in ("dropout_p", "is_causal", "scale")
        if draw.argument(name) is not None
    }
    if ("attn_mask", None) in draw.others:
        given["attn_mask"] = draw.made("attn_mask")
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    out, logsumexp = forward(draw.made("query"), draw.made("key"), draw.made("value"), **given)
    return out if draw.spec.argument == "out" else logsumexp
