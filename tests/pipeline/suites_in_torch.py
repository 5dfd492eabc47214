"""Load models of suites, or list the names of all, and print what was found as JSON.

Run with the Python of an environment that loads models; used by test_suite_models.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from models.suites import _untrained as untrained
from scripts.frontends.torch_model import convert, errors, loading
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.stages import list_suites


def main() -> None:
    case = json.load(sys.stdin)
    found = {"load": loads, "listings": listings, "untrained": prepared}[case.pop("do")](**case)
    print(json.dumps(found))


def loads(models: list[list[Any]]) -> list[dict[str, Any]]:
    """What became of each [suite, options], in one process: its imports take longer than most."""
    return [load(f"models/suites/{suite}.py", options) for suite, options in models]


def load(file: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a model and its inputs are; or the error of its building."""
    try:
        loaded = loading.load(ModelChoice("m", Path(file), options))
    except errors.ModelError as error:
        return {"error": str(error)}
    with torch.no_grad():
        outputs = convert.flat_tensors(loaded.module(*loaded.args, **loaded.kwargs))
    return {
        "class": type(loaded.module).__name__,
        "inputs": {name: list(tensor.shape) for name, tensor in loaded.inputs},
        "outputs": {name: list(tensor.shape) for name, tensor in outputs},
        "std": [float(tensor.std()) for _, tensor in outputs],
        "described": loaded.input_description(),
        "parameters": sum(p.numel() for p in loaded.module.parameters()),
        "training": [n for n, m in loaded.module.named_modules() if m.training],
    }


def listings() -> dict[str, list[str]]:
    """The names that the installed packages have, by suite."""
    return {suite: lines for suite, (_, lines) in list_suites.listings().items()}


class Untrained(nn.Module):
    """Everything that starts without a part in the output, and what does not."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.gain = nn.Parameter(torch.full((8,), 1e-6))
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)
        nn.init.zeros_(self.norm.weight)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen_training = self.dropout.training
        return self.head(x + self.gain * self.norm(self.body(x)))


def prepared() -> dict[str, Any]:
    """An untrained network before and after, and what of it changed."""
    torch.manual_seed(0)
    net, x = Untrained().eval(), torch.randn(64, 8)
    before = {name: w.clone() for name, w in net.named_parameters()}
    flat = bool((net(x) == 0).all())
    untrained.prepare(net, lambda batch_size: 5 * torch.randn(batch_size, 8) + 3, 64)
    norm = net.norm
    normed = (net.body(5 * x + 3) - norm.running_mean) / norm.running_var.sqrt()
    return {
        "was_zero": flat,
        "changed": [n for n, w in net.named_parameters() if not torch.equal(w, before[n])],
        "largest": {n: float(w.abs().max()) for n, w in net.named_parameters()},
        "std": float(net(x).std()),
        "normed": [float(normed.mean().abs()), float(normed.std())],
        "momentum": norm.momentum,
        "training": net.seen_training or net.training or norm.training,
    }


if __name__ == "__main__":
    main()
