"""PyTorch/XLA with lazy tensors: each call is traced anew, and compiled if it is a new trace."""

from __future__ import annotations

import functools

import torch

from scripts.lib.modeling.loading import LoadedModel
from scripts.lib.torch_runtime.session import TorchSession, eager_in_precision
from scripts.lib.torch_runtime.xla_device import XlaDevice as Device

__all__ = ["DEVICES", "Device", "eager_in_precision", "open_session"]

DEVICES = ("cpu", "cuda")
TAKES = ("xla_flags",)
LAZY = True
"""What executes while the model's own code runs is waited for there: a value that it looks at."""


def prepare(loaded: LoadedModel) -> torch.nn.Module:
    """The callable to measure."""
    return loaded.module


open_session = functools.partial(TorchSession, prepare=prepare)
