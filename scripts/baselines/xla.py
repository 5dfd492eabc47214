"""PyTorch/XLA with lazy tensors: each call is traced anew, and compiled if it is a new trace."""

from __future__ import annotations

import functools

import torch

from scripts.baselines.sessions.torch_device import XlaDevice as Device
from scripts.baselines.sessions.torch_session import TorchSession, eager_in_precision
from scripts.frontends.torch_model.loading import LoadedModel

__all__ = ["Device", "eager_in_precision", "open_session"]

DEVICES = ("cpu", "cuda")
TESTS = ("eval", "train")
TAKES = ("precision", "xla_flags")
LAZY = True  # what executes in the model's own code (a value that it looks at) is waited for there
VERSIONS = {"torch": "torch", "torch_xla": "torch_xla"}
MEMORY_FACTOR = 1.3
FORKABLE = True


def prepare(loaded: LoadedModel) -> torch.nn.Module:
    """The callable to measure."""
    return loaded.module


open_session = functools.partial(TorchSession, prepare=prepare)
