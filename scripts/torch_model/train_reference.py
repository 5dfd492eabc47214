"""What a program of a training step takes and returns, as the gradients stage has fixed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from scripts.core import tensors
from scripts.core.tensors import Signature, TensorType
from scripts.torch_model import loading
from scripts.torch_model.optimizer import Optimizer
from scripts.torch_model.step import to_training


@dataclass(frozen=True)
class Training:
    """`cotangents`: inputs of the program after those of the model. `state`: the optimizer's tensors by key.
    `results`: the names of the results in order (core/tensors.py)."""

    optimizer: Optimizer
    cotangents: tuple[TensorType, ...]
    state: Mapping[str, TensorType]
    results: tuple[str, ...]

    @property
    def trained(self) -> list[str]:
        """The parameters that have a gradient."""
        start = tensors.GRADIENT
        return [name.removeprefix(start) for name in self.results if name.startswith(start)]

    @property
    def changing(self) -> frozenset[str]:
        """The keys of the weights, buffers and tensors of the optimizer that the step changes."""
        start = tensors.CHANGE
        found = (name for name in self.results if name.startswith(start))
        return frozenset(name.removeprefix(start) for name in found)

    def cotangent_values(self) -> list[torch.Tensor]:
        """Zeros of their types: a capture needs no values."""
        return [_zeros(kind) for kind in self.cotangents]

    def state_values(self) -> dict[str, torch.Tensor]:
        """The same of the optimizer's state."""
        return {key: _zeros(kind) for key, kind in self.state.items()}


def of_signature(
    loaded: loading.LoadedModel, signature: Signature, optimizer: Optimizer
) -> Training:
    """The training step of a model, from the signature that the gradients stage has written."""
    return Training(
        optimizer=optimizer,
        cotangents=signature.inputs[len(loaded.inputs) :],
        state={
            kind.name: kind
            for kind in signature.parameters
            if kind.name.startswith(tensors.OPTIMIZER)
        },
        results=tuple(kind.name for kind in signature.outputs),
    )


def for_capture(loaded: loading.LoadedModel, training: Training) -> loading.LoadedModel:
    """The model as a training step is captured of it, in place: in train mode, with gradients for those parameters
    that the step changes."""
    to_training(loaded)
    trained = set(training.trained)
    for name, weight in loaded.module.named_parameters():
        weight.requires_grad_(name in trained)
    loaded.training = training
    return loaded


def _zeros(kind: TensorType) -> torch.Tensor:
    return torch.zeros(kind.shape, dtype=getattr(torch, kind.dtype))
