"""Kernels of this project in Triton, in place of those of models/kernels/."""

from __future__ import annotations

import functools

from scripts.torch_runtime import kernel_library
from scripts.torch_runtime.kernel_library import Functions
from scripts.torch_runtime.torch_device import TorchDevice as Device

__all__ = ["Device", "open_session"]

DEVICES = ("cuda",)
TESTS = ("eval",)
VERSIONS = {"torch": "torch"}
MEMORY_FACTOR = 1.0
FORKABLE = True


def functions() -> Functions:
    """The functions by the names of kernels. Raises ImportError."""
    from scripts.torch_runtime import triton_kernels

    return triton_kernels.FUNCTIONS


open_session = functools.partial(kernel_library.open_session, package="triton", functions=functions)
