"""Kernels of QuACK (package quack-kernels, written in CuTe) in place of those of models/kernels/.

Written by the code of quack-kernels 0.6.5; not run on a GPU yet.
"""

from __future__ import annotations

import functools

import torch

from scripts.baselines.sessions import torch_session
from scripts.baselines.sessions.torch_device import TorchDevice as Device
from scripts.baselines.sessions.torch_session import EPS, KernelFunctions

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

    return {
        "softmax_forward": lambda x: softmax.softmax_fwd(x),
        "softmax_backward": lambda gradient, y: softmax.softmax_bwd(gradient, y),
        "cross_entropy_forward": lambda logits, targets: cross_entropy.cross_entropy_fwd(
            logits, targets
        ).to(logits.dtype),
        # Log-probabilities are logits whose log-sum-exp is 0.
        "cross_entropy_backward": lambda gradient, log_probabilities, targets: (
            cross_entropy.cross_entropy_bwd(
                log_probabilities, targets, gradient.float(), torch.zeros_like(gradient).float()
            )
        ),
        "rms_norm_forward": lambda x, weight: rmsnorm.rmsnorm_fwd(x, weight, eps=EPS)[0],
        "rms_norm_backward": lambda gradient, x, inverse_rms, weight: rmsnorm.rmsnorm_bwd(
            x, weight, gradient, inverse_rms.flatten().float()
        )[:2],
        "layer_norm_forward": lambda x, weight, bias: rmsnorm.layernorm_fwd(
            x, weight.float(), bias.float(), EPS
        ),
        "layer_norm_backward": lambda gradient, x, mean, inverse_deviation, weight, bias: (
            rmsnorm.layernorm_bwd(
                x, weight, gradient, inverse_deviation.flatten().float(), mean.flatten().float()
            )
        ),
    }


open_session = functools.partial(
    torch_session.open_kernel_session, package="quack-kernels", functions=functions
)
