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

from scripts.exporters import torch_mlir
from scripts.features.reproduce.graph_parts import writing, wrong
from scripts.features.reproduce.graph_parts.computed import PLAIN, Compiled, Lowering
from scripts.torch_model.loading import LoadedModel

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


def lowering(exporter, folder: Path) -> Lowering:
    return Lowering(exporter, OPTIONS, PLAIN, folder, 1)


class OnlySmall(Lowering):
    """Does not compile programs of several operators."""

    def compiled(self, part, limit_s):
        return (
            Compiled("", why="too large")
            if len(part.nodes) > 1
            else super().compiled(part, limit_s)
        )


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


frontend = writing.frontend("torch_mlir", OPTIONS)
versions = writing.versions("torch_mlir", frontend)
model = LoadedModel("small", Model().eval(), (torch.rand(8, 12),), {}, file=None)
later = time.monotonic() + 300
made: dict = {}
with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as out:
    found = wrong.find(
        model, lowering(SimpleNamespace(export=with_wrong_tanh), Path(scratch)), later
    )
    case = writing.Case("small", found, frontend, OPTIONS, versions)
    writing.write(case, Path(out))
    made["wrong"] = writing.report(case) | report(Path(out))
    made["script"] = Path(out, "wrong.py").read_text()
    alone = OnlySmall(SimpleNamespace(export=with_wrong_tanh), OPTIONS, PLAIN, Path(scratch), 1)
    one = wrong.find(model, alone, later)
    made["alone"] = {"node": str(one.node), "wrong": one.wrong}
    try:
        wrong.find(model, lowering(torch_mlir, Path(scratch)), later)
    except wrong.NotFound as error:
        made["right"] = str(error)
json.dump(made, sys.stdout)
