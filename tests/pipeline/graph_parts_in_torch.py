"""Prints, as JSON, the wrong operator of a small model. Runs in the environment `torch-mlir`."""

import copy
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import torch

from scripts.frontends.exporters import torch_mlir
from scripts.frontends.torch_model.loading import LoadedModel
from scripts.tools.reproduce import wrong_operator
from scripts.tools.reproduce.wrong_operator import Lowering, Program

OPTIONS = {"dialect": "stablehlo", "rewrites": "none"}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(12, 12)

    def forward(self, x):
        first, second = torch.split(self.fc(x), 6, dim=1)
        return torch.tanh(first + 1.0) * second, second.relu()


def with_wrong_tanh(loaded: LoadedModel, options: dict):
    """An exporter that takes a hyperbolic tangent for a sine."""

    other = copy.deepcopy(loaded.module)
    for node in other.graph.nodes:
        if node.target is torch.ops.aten.tanh.default:
            node.target = torch.ops.aten.sin.default
    other.recompile()
    return torch_mlir.export(dataclasses.replace(loaded, module=other), options)


class OnlySmall(Lowering):
    """Does not compile programs of several operators."""

    def compiled(self, part):
        return Program("", why="too large") if len(part.nodes) > 1 else super().compiled(part)


def report(folder: Path) -> dict:
    """The files of a folder, and what its commands say."""
    [script] = folder.glob("run_*.sh")
    tools = Path(sys.executable).parent
    done = subprocess.run([script, tools], capture_output=True, text=True, check=False)
    return {
        "files": sorted(path.name for path in folder.iterdir() if path.suffix != ".vmfb"),
        "issue": (folder / "ISSUE.md").read_text(),
        "returncode": done.returncode,
        "said": done.stdout + done.stderr,
    }


frontend = wrong_operator.frontend("torch_mlir", OPTIONS)
model = LoadedModel("small", Model().eval(), (torch.rand(8, 12),), {}, file=None)
wrong_exporter = SimpleNamespace(export=with_wrong_tanh)
made: dict = {}
with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as out:
    limits = (Path(scratch), 1, time.monotonic() + 300)
    found = wrong_operator.find(model, Lowering(wrong_exporter, OPTIONS, *limits))
    made["wrong"] = wrong_operator.write(found, "small", frontend, OPTIONS, Path(out)) | report(
        Path(out)
    )
    made["script"] = Path(out, "wrong.py").read_text()
    alone = wrong_operator.find(model, OnlySmall(wrong_exporter, OPTIONS, *limits))
    made["alone"] = {"node": str(alone.node), "wrong": alone.wrong}
    try:
        wrong_operator.find(model, Lowering(torch_mlir, OPTIONS, *limits))
    except wrong_operator.NotFound as error:
        made["right"] = str(error)
json.dump(made, sys.stdout)
