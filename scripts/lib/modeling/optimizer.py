"""The optimizer of a training step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch.optim, by its name, and its learning rate."""

    name: str = "SGD"
    lr: float = 0.01
