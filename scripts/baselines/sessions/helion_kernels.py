"""Kernels of this project in Helion, tiled over rows. Imports helion.

Helion searches a configuration in the first call; with `quick`, for a minute or so per kernel and shape.
"""

from __future__ import annotations

import helion
import helion.language as hl
import torch

from scripts.baselines.sessions.torch_session import EPS

_kernel = helion.kernel(static_shapes=True, autotune_effort="quick")


@_kernel
def softmax_forward(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    for rows in hl.tile(x.size(0)):
        values = x[rows, :].to(torch.float32)
        powers = torch.exp(values - torch.amax(values, dim=1, keepdim=True))
        y[rows, :] = (powers / torch.sum(powers, dim=1, keepdim=True)).to(x.dtype)
    return y


@_kernel
def softmax_backward(gradient: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x_gradient = torch.empty_like(y)
    for rows in hl.tile(y.size(0)):
        g = gradient[rows, :].to(torch.float32)
        values = y[rows, :].to(torch.float32)
        inner = torch.sum(g * values, dim=1, keepdim=True)
        x_gradient[rows, :] = ((g - inner) * values).to(y.dtype)
    return x_gradient


@_kernel
def _rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    y = torch.empty_like(x)
    for rows in hl.tile(x.size(0)):
        values = x[rows, :].to(torch.float32)
        mean = torch.mean(values * values, dim=1, keepdim=True)
        normed = values * torch.rsqrt(mean + eps)
        y[rows, :] = (normed * weight[:].to(torch.float32)).to(x.dtype)
    return y


@_kernel
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(gate)
    for rows in hl.tile(gate.size(0)):
        g = gate[rows, :].to(torch.float32)
        y[rows, :] = (g * torch.sigmoid(g) * up[rows, :].to(torch.float32)).to(gate.dtype)
    return y


def rms_norm_forward(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return _rms_norm(x, weight, EPS)


FUNCTIONS = {
    "softmax_forward": softmax_forward,
    "softmax_backward": softmax_backward,
    "rms_norm_forward": rms_norm_forward,
    "swiglu": swiglu,
}
"""The functions by the names of kernels."""
