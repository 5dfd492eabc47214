"""PyTorch eager: the module as it is."""

from __future__ import annotations

import torch

from scripts.lib.torch_runtime.torch_device import TorchDevice as Device

__all__ = ["DEVICES", "Device", "prepare"]

DEVICES = ("cpu", "cuda")


def prepare(module: torch.nn.Module) -> torch.nn.Module:
    """The callable to measure."""
    return module
