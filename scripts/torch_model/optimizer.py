"""The optimizer of a training step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch.optim: its name, its learning rate, and the other arguments that it is called with, such as
    `momentum`. Without them it has PyTorch's defaults."""

    name: str = "SGD"
    lr: float = 0.01
    others: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str = "SGD", lr: float = 0.01, **others: Any) -> Optimizer:
        """The optimizer of an entry `train` of the configuration."""
        return cls(name, lr, others)

    @property
    def arguments(self) -> dict[str, Any]:
        """What torch.optim's class is called with, besides the weights."""
        return {"lr": self.lr, **self.others}
