"""What an optimizer makes of weights, and its state as tensors of an archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from scripts.core.tensors import OPTIMIZER
from scripts.torch_model.optimizer import Optimizer


def make(optimizer: Optimizer, weights: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    """The optimizer of these weights, which updates one after the other as the captured programs do."""
    kind = getattr(torch.optim, optimizer.name)
    return kind(list(weights), **optimizer.arguments, foreach=False)


def slots(optimizer: Optimizer) -> tuple[str, ...]:
    """The names of the tensors that it keeps for each weight: none for SGD, `momentum_buffer` for SGD with momentum,
    `step`, `exp_avg` and `exp_avg_sq` for Adam."""
    weight = torch.zeros(1)
    weight.grad = torch.ones(1)
    made = make(optimizer, [weight])
    made.step()
    return tuple(n for n, value in made.state[weight].items() if isinstance(value, torch.Tensor))


def key(slot: str, weight: str) -> str:
    """The key of one of an optimizer's tensors for a weight."""
    return f"{OPTIMIZER}{slot}.{weight}"


def stepped(
    optimizer: Optimizer,
    weights: Mapping[str, torch.Tensor],
    gradients: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """Return what a step of the optimizer makes of weights and of its state, by key.

    The arguments stay as they are. `gradients`: by the names of their weights. `state`: by `key`; without an entry
    the optimizer starts anew.
    """
    copies = {name: weights[name].detach().clone() for name in gradients}
    for name, copy in copies.items():
        copy.grad = gradients[name].detach()
    made = make(optimizer, copies.values())
    kept = slots(optimizer)
    for name, copy in copies.items():
        put(made, copy, name, kept, state)
    made.step()
    return copies | {
        key(slot, name): value
        for name, copy in copies.items()
        for slot, value in made.state[copy].items()
        if isinstance(value, torch.Tensor)
    }


def put(
    made: torch.optim.Optimizer,
    weight: torch.Tensor,
    name: str,
    kept: Sequence[str],
    state: Mapping[str, torch.Tensor],
) -> None:
    """Give an optimizer its state for a weight: copies of the tensors `kept` in `state`, in the weight's dtype where they
    have its shape. Nothing, if `state` has none."""
    found = {slot: state[key(slot, name)] for slot in kept if key(slot, name) in state}
    if found:
        made.state[weight] = {
            slot: (value.to(weight.dtype) if value.shape == weight.shape else value).clone()
            for slot, value in found.items()
        }
