"""Kernels of QuACK (package quack-kernels, written in CuTe) in place of those of models/kernels/.

Written by the code of quack-kernels 0.6.5; not run on a GPU yet.
"""

from __future__ import annotations

import functools

import torch

from scripts.torch_runtime import torch_session
from scripts.torch_runtime.torch_device import TorchDevice as Device
from scripts.torch_runtime.torch_session import EPS, KernelFunctions

__all__ = ["Device", "open_session"]

DEVICES = ("cuda",)
TESTS = ("eval",)
VERSIONS = {"torch": "torch"}
MEMORY_FACTOR = 1.0
FORKABLE = True


def functions() -> KernelFunctions:
    """QuACK's functions by the names of kernels. Raises ImportError.

    It takes statistics, and the weights of a layer norm, in float32. They are small, and are converted in
    each call.
    """
    from quack import cross_entropy, rmsnorm, softmax

    def softmax_forward(x: torch.Tensor) -> torch.Tensor:
        return softmax.softmax_fwd(x)

    def softmax_backward(gradient: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return softmax.softmax_bwd(gradient, y)

    def cross_entropy_forward(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy.cross_entropy_fwd(logits, targets).to(logits.dtype)

    def cross_entropy_backward(
        gradient: torch.Tensor, log_probabilities: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        # Log-probabilities are logits whose log-sum-exp is 0.
        sums = torch.zeros_like(gradient, dtype=torch.float32)
        return cross_entropy.cross_entropy_bwd(log_probabilities, targets, gradient.float(), sums)

    def rms_norm_forward(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rmsnorm.rmsnorm_fwd(x, weight, eps=EPS)[0]

    def rms_norm_backward(
        gradient: torch.Tensor, x: torch.Tensor, inverse_rms: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return rmsnorm.rmsnorm_bwd(x, weight, gradient, inverse_rms.flatten().float())[:2]

    def layer_norm_forward(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        return rmsnorm.layernorm_fwd(x, weight.float(), bias.float(), EPS)

    def layer_norm_backward(
        gradient: torch.Tensor,
        x: torch.Tensor,
        mean: torch.Tensor,
        inverse_deviation: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        statistics = (inverse_deviation.flatten().float(), mean.flatten().float())
        return rmsnorm.layernorm_bwd(x, weight, gradient, *statistics)

    return {
        "softmax_forward": softmax_forward,
        "softmax_backward": softmax_backward,
        "cross_entropy_forward": cross_entropy_forward,
        "cross_entropy_backward": cross_entropy_backward,
        "rms_norm_forward": rms_norm_forward,
        "rms_norm_backward": rms_norm_backward,
        "layer_norm_forward": layer_norm_forward,
        "layer_norm_backward": layer_norm_backward,
    }


open_session = functools.partial(
    torch_session.open_kernel_session, package="quack-kernels", functions=functions
)
