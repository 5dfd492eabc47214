"""PyTorch eager: the module as it is."""

from __future__ import annotations

import torch


def prepare(module: torch.nn.Module) -> torch.nn.Module:
    """The callable to measure."""
    return module


def settle() -> None:
    """End whatever would run beside the timed calls; eager has nothing of the kind."""


def compile_seconds() -> float | None:
    """Seconds spent compiling so far; eager compiles nothing."""
    return None
