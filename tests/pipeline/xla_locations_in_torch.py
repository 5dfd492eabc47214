"""Prints how many operations of a program of PyTorch/XLA have the name of a node. Used by test_torch_xla.py."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from scripts.frontends.exporters import torch_xla
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


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "normed.py")
        file.write_text(MODEL)
        loaded = loading.load(ModelChoice("normed", file, {}))
        lowered, _ = torch_xla.export(loaded, {"rewrites": "all"})
    lines = [line for line in lowered.text.splitlines() if "stablehlo." in line]
    named = [
        line for line in lines if any(f'loc("{node}")' in line for node in lowered.origins.nodes)
    ]
    json.dump([len(named), len(lines)], sys.stdout)


if __name__ == "__main__":
    main()
