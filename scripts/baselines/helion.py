"""Kernels of this project in Helion, in place of those of models/kernels/."""

from __future__ import annotations

import functools

from scripts.baselines.sessions import torch_session
from scripts.baselines.sessions.torch_device import TorchDevice as Device
from scripts.baselines.sessions.torch_session import KernelFunctions

__all__ = ["Device", "open_session"]

DEVICES = ("cuda",)
TESTS = ("eval",)
VERSIONS = {"torch": "torch"}
MEMORY_FACTOR = 1.0
FORKABLE = True


def functions() -> KernelFunctions:
    """The functions by the names of kernels. Raises ImportError."""
    from scripts.baselines.sessions import helion_kernels

    return helion_kernels.FUNCTIONS


open_session = functools.partial(
    torch_session.open_kernel_session, package="helion", functions=functions
)
