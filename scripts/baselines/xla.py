"""PyTorch/XLA with lazy tensors: each call is traced anew, and compiled if it is a new trace."""

from __future__ import annotations

import torch

from scripts.lib.torch_runtime.xla_device import XlaDevice as Device

__all__ = ["DEVICES", "Device", "prepare"]

DEVICES = ("cpu", "cuda")
TAKES = ("xla_flags",)
LAZY = True
"""What executes while the model's own code runs is waited for there: a value that it looks at."""


def prepare(module: torch.nn.Module) -> torch.nn.Module:
    """The callable to measure."""
    return module
