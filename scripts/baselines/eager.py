"""PyTorch eager: the module as it is."""

from __future__ import annotations

import functools

import torch

from scripts.baselines.sessions.torch_device import TorchDevice as Device
from scripts.baselines.sessions.torch_session import TorchSession, eager_in_precision
from scripts.frontends.torch_model.loading import LoadedModel

__all__ = ["Device", "eager_in_precision", "open_session"]

DEVICES = ("cpu", "cuda")
TESTS = ("eval", "train")
TAKES = ("precision", "rewrites")
VERSIONS = {"torch": "torch"}
MEMORY_FACTOR = 1.0
FORKABLE = True


def prepare(loaded: LoadedModel) -> torch.nn.Module:
    """The callable to measure."""
    return loaded.module


open_session = functools.partial(TorchSession, prepare=prepare)
