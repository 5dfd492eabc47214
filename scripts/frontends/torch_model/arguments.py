"""Fields of the request of every stage that loads a model, or takes a training step of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.core.commands import option


@dataclass(frozen=True)
class ModelChoice:
    """A model file and the options of its entry. `name` is its name in the matrix.

    `load_threads`: CPU threads that build it; None for torch's own choice.
    """

    name: str
    model_file: Path
    options: Mapping[str, Any] = option(factory=dict, help='JSON: {"seq_len": 128}')
    load_threads: int | None = option(None, help="CPU threads (default: torch's choice)")

    @property
    def dtype(self) -> str:
        return self.options.get("dtype", "f32")

    @property
    def seed(self) -> int:
        return int(self.options.get("seed", 0))


@dataclass(frozen=True)
class Optimizer:
    """An optimizer of torch.optim: its name, its learning rate, and the other arguments that it is called with, such as
    `momentum`. Without them it has PyTorch's defaults."""

    name: str = "SGD"
    lr: float = 0.01
    others: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_entry(cls, name: str = "SGD", lr: float = 0.01, **others: Any) -> Optimizer:
        """The optimizer of an entry `train` of the configuration."""
        return cls(name, lr, others)

    @classmethod
    def option(cls) -> Any:
        """The field for the optimizer of training steps."""
        return option(
            factory=cls,
            type=lambda entry: cls.of_entry(**entry),
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """What torch.optim's class is called with, besides the weights."""
        return {"lr": self.lr, **self.others}
