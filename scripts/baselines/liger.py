"""Kernels of Liger (package liger-kernel, written in Triton) in place of those of models/kernels/.

Liger computes the gradient of a cross entropy in its forward pass, so there is no backward kernel of it.
Written by the code of liger-kernel 0.8.5; not run on a GPU yet.
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
    """Liger's functions by the names of kernels. Raises ImportError."""
    from liger_kernel.ops import cross_entropy, layer_norm, rms_norm, softmax, swiglu
    from liger_kernel.ops.utils import calculate_settings

    casting = rms_norm._CASTING_MODE_LLAMA.value

    def softmax_backward(gradient: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        block, warps = calculate_settings(y.shape[-1])
        return softmax._softmax_backward(gradient, y, block, warps, y.shape[-1] > block)

    def rms_norm_backward(
        gradient: torch.Tensor, x: torch.Tensor, inverse_rms: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        block, warps = calculate_settings(x.shape[-1])
        inverse = inverse_rms.flatten().float()
        return rms_norm.rms_norm_backward(
            gradient, x, weight, inverse, 0.0, casting, block, warps, False, None
        )

    return {
        "softmax_forward": lambda x: softmax._softmax_forward(x)[0],
        "softmax_backward": softmax_backward,
        "cross_entropy_forward": lambda logits, targets: cross_entropy.cross_entropy_forward(
            logits, targets, None, -100, 0.0, 0.0, "none", None, False
        )[0].to(logits.dtype),
        "rms_norm_forward": lambda x, weight: rms_norm.rms_norm_forward(
            x, weight, EPS, 0.0, casting, None
        )[0],
        "rms_norm_backward": rms_norm_backward,
        "layer_norm_forward": lambda x, weight, bias: layer_norm.layer_norm_forward(
            x, weight, bias, EPS
        )[0],
        "layer_norm_backward": lambda gradient, x, mean, inverse_deviation, weight, bias: (
            layer_norm.layer_norm_backward(
                gradient,
                x,
                weight,
                bias,
                mean.flatten().float(),
                inverse_deviation.flatten().float(),
            )
        ),
        "swiglu": lambda gate, up: swiglu.LigerSiLUMulFunction.apply(gate, up),
    }


open_session = functools.partial(
    torch_session.open_kernel_session, package="liger-kernel", functions=functions
)
