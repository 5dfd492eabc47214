"""Capture training steps of small models and run the captured graphs in torch, beside the eager step.

Run with the Python of an environment that has torch; used by test_training.py. Prints a line of JSON: for each case
the names of the results, and the largest difference of each relative to the largest value of its kind.
"""

from __future__ import annotations

import json

import numpy as np
import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind

from scripts.core.tensors import CHANGE, OPTIMIZER, Signature
from scripts.frontends.lowering import capture
from scripts.frontends.torch_model import convert, loading
from scripts.frontends.torch_model.arguments import Optimizer
from scripts.frontends.torch_model.loading import named_weights
from scripts.frontends.torch_model.step import (
    TrainStep,
    WholeStep,
    for_capture,
    make_cotangents,
    state_slots,
    stepped,
    to_training,
)


class Tied(nn.Module):
    """An embedding whose weight is that of the last layer too, and a parameter without a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight
        self.unused = nn.Parameter(torch.randn(3))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embed(tokens)))


class OwnLoss(nn.Module):
    """Returns a loss of its own, as transformers' models do when they are given labels."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.lin(x)
        return {"loss": logits.square().mean(), "logits": logits}


CASES = {
    "batch norm and dropout": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5)
        ),
        lambda: torch.randn(2, 3, 6, 6),
    ),
    "tied": (Tied, lambda: torch.randint(0, 11, (2, 5))),
    "own loss": (OwnLoss, lambda: torch.randn(2, 4)),
}
OPTIMIZERS = {
    "SGD": Optimizer.of_entry(lr=0.1),
    "SGD with momentum": Optimizer.of_entry(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam": Optimizer.of_entry("Adam", 0.1),
    "AdamW": Optimizer.of_entry("AdamW", 0.1, betas=[0.5, 0.9], amsgrad=True),
}


def main() -> None:
    found = {}
    for name, (model, given) in CASES.items():
        for called, optimizer in OPTIMIZERS.items():
            torch.manual_seed(0)
            found[f"{name}, {called}"] = _case(model(), given(), optimizer)
    print(json.dumps(found))


def _case(module: nn.Module, given: torch.Tensor, optimizer: Optimizer) -> dict[str, float]:
    """The difference of each result of a captured step from the eager one, by name."""
    loaded = to_training(loading.LoadedModel("m", module, (given,), {}, None))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with torch.no_grad():
        cotangents = [torch.from_numpy(c) for c in make_cotangents(module(given), 0)]
    module.load_state_dict(before)
    state = _state(loaded, cotangents, optimizer)
    module.load_state_dict(before)
    step = WholeStep(loaded, cotangents, optimizer, state)
    eager = dict(step.results(step()))
    module.zero_grad(set_to_none=True)
    weights = named_weights(module)[0] | state
    fixed = for_capture(loaded, _signature(loaded, cotangents, weights, eager), optimizer)
    program = capture.functional(capture.capture(fixed), {})
    results = _run(program, weights, [given, *cotangents])
    got = dict(zip(eager, results, strict=True))
    return {
        name: _difference(value - weights[name.removeprefix(CHANGE)], eager[name])
        if name.startswith(CHANGE)
        else _difference(value, eager[name])
        for name, value in got.items()
    }


def _state(loaded, cotangents, optimizer) -> dict[str, torch.Tensor]:
    if not state_slots(optimizer):
        return {}
    TrainStep(loaded, cotangents)()
    trained = {n: w for n, w in loaded.module.named_parameters() if w.grad is not None}
    after = stepped(optimizer, trained, {n: w.grad for n, w in trained.items()}, {})
    return {key: value for key, value in after.items() if key.startswith(OPTIMIZER)}


def _signature(loaded, cotangents, weights, eager) -> Signature:
    """The signature that the gradients stage writes."""
    kind = convert.tensor_type
    given = [kind(path, t) for path, t in loaded.inputs]
    given += [kind(f"cotangent.{i}", t) for i, t in enumerate(cotangents)]
    return Signature(
        model="m",
        dtype="f32",
        batch_size=1,
        inputs=tuple(given),
        outputs=tuple(kind(name, value) for name, value in eager.items()),
        parameters=tuple(kind(name, value) for name, value in weights.items()),
        aliases={},
        options={},
        torch_version="",
        has_fp64=False,
        rmse_vs_fp64=None,
        deterministic=True,
    )


def _run(program, weights, inputs) -> list[torch.Tensor]:
    """The results of a program for these weights, by the names of the model, and inputs."""
    held = {name.removeprefix("model."): value for name, value in program.state_dict.items()}
    held |= weights
    taken = iter(inputs)
    arguments = [
        next(taken)
        if spec.kind is InputKind.USER_INPUT
        else program.constants[spec.target]
        if spec.kind is InputKind.CONSTANT_TENSOR
        else held[spec.target.removeprefix("model.")]
        for spec in program.graph_signature.input_specs
    ]
    with torch.no_grad():
        return fx.Interpreter(program.graph_module).run(*arguments)


def _difference(got: torch.Tensor, want: torch.Tensor) -> float:
    found, expected = convert.to_numpy(got).astype(float), convert.to_numpy(want).astype(float)
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30))


if __name__ == "__main__":
    main()
