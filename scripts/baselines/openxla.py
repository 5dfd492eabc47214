"""torch.compile with the openxla backend: traced and compiled once, by dynamo and then XLA.

Its compile time is XLA's; what dynamo takes is in the trace of the cold run.
"""

from __future__ import annotations

import torch

from scripts.lib.torch_runtime.xla_device import XlaDevice as Device

__all__ = ["DEVICES", "Device", "prepare"]

DEVICES = ("cpu", "cuda")
TAKES = ("xla_flags",)


def prepare(module: torch.nn.Module) -> torch.nn.Module:
    """The callable to measure; it compiles in its first call."""
    return torch.compile(module, backend="openxla", dynamic=False, fullgraph=False)
