"""Prints how many operations of a program of PyTorch/XLA have the name of a node, of how many, and the inputs that a program of equal numbers takes. Used by test_torch_xla.py."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from scripts.frontends.exporters import torch_xla
from scripts.frontends.lowering.link import Input, Lowered
from scripts.frontends.torch_model import loading
from scripts.frontends.torch_model.arguments import ModelChoice

MODEL = """
import torch
from torch import nn

def get_model():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))

def get_dummy_input():
    return torch.randn(1, 3, 8, 8)
"""

NUMBERS = """
import torch
from torch import nn

class Numbers(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x, y, chosen, other):
        return torch.where(chosen, x, y * self.scale), torch.where(other, y, x)

def get_model():
    return Numbers()

def get_dummy_input():
    return torch.tensor(2.0), torch.tensor(2.0), torch.tensor(True), torch.tensor(True)
"""


def exported(folder: str, name: str, text: str) -> Lowered:
    file = Path(folder, f"{name}.py")
    file.write_text(text)
    lowered, _ = torch_xla.export(loading.load(ModelChoice(name, file, {})), {"rewrites": "all"})
    return lowered


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lowered, numbers = exported(folder, "normed", MODEL), exported(folder, "numbers", NUMBERS)
    lines = [line for line in lowered.text.splitlines() if "stablehlo." in line]
    named = [
        line for line in lines if any(f'loc("{node}")' in line for node in lowered.origins.nodes)
    ]
    inputs = sorted(a.position for a in numbers.arguments if isinstance(a, Input))
    json.dump([len(named), len(lines), inputs], sys.stdout)


if __name__ == "__main__":
    main()
