"""Prints, as JSON, how many threads compute while a converted model is called. Runs in the environment of its runtime.

Arguments: a module of scripts/baselines, and the number of threads that it is given.
"""

import importlib
import json
import sys
import tempfile
import time
from pathlib import Path

import torch

from scripts.frontends.torch_model.loading import LoadedModel

SECONDS = 1.0
"""The CPU time of all threads together, after which the loop ends."""
SHARE = 0.1
"""A thread computes if it has at least this share of the CPU time of all."""


def seconds() -> dict[str, float]:
    """The CPU time of each thread of this process."""
    found = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        found[path.parent.name] = int(path.read_text().split()[0]) / 1e9
    return found


runtime = importlib.import_module(f"scripts.baselines.{sys.argv[1]}")
threads = int(sys.argv[2])
torch.manual_seed(0)
runtime.Device("cpu", threads)
layers = [torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU()] * 3
x = torch.rand(1, 32, 128, 128)
loaded = LoadedModel("m", torch.nn.Sequential(*layers).eval(), (x,), {}, None)
with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    runtime.convert(loaded, Path(folder))
    call = runtime.load(Path(folder), threads)
    expected = loaded.module(x)
    [result] = call([x])
    time.sleep(0.5)  # PyTorch's threads still wait for work, and use the CPU for it
    before = seconds()
    spent = [0.0]
    while sum(spent) < SECONDS:
        call([x])
        spent = [now - before.get(thread, 0.0) for thread, now in seconds().items()]
computing = sum(one >= SHARE * sum(spent) for one in spent)
print(json.dumps({"computing": computing, "right": torch.allclose(result, expected, atol=1e-4)}))
