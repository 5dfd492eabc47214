"""torch.compile with the openxla backend: traced and compiled once, by dynamo and then XLA.

Its compile time is that of XLA. The time of dynamo is part of the trace time of the cold run.
"""

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
VERSIONS = {"torch": "torch", "torch_xla": "torch_xla"}
MEMORY_FACTOR = 1.0
FORKABLE = True


def prepare(loaded: LoadedModel) -> torch.nn.Module:
    """The callable to measure; it compiles in its first call."""
    return torch.compile(loaded.module, backend="openxla", dynamic=False, fullgraph=False)


open_session = functools.partial(TorchSession, prepare=prepare)
