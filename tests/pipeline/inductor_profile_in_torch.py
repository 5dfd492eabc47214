"""Prints, as JSON, the module of each product in inductor's profile of a model with a graph break in a submodule. Runs in the environment `torch-mlir`."""

import json
import sys

import torch
from torch import nn

from scripts.baselines import inductor as runtime
from scripts.tools.profile.parts import Parts
from scripts.tools.profile.profilers import PRODUCTS, base_name, inductor


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.before(x))
        torch._dynamo.graph_break()
        return self.after(x) @ x


model = nn.Sequential(nn.Linear(64, 64), Broken()).eval()
x = torch.rand(64, 64)
runtime.prepare_machine()
compiled = torch.compile(model)
with torch.no_grad():
    with inductor.marking(model):
        compiled(x)
    [times] = inductor.times_of_calls(lambda: compiled(x), Parts(model), 1)
nodes = [node for kernel in times.kernels_ms for node in kernel.nodes]
json.dump([node.module for node in nodes if base_name(node.operator) in PRODUCTS], sys.stdout)
