"""Prints, as JSON, what inductor compiles before and after a fork. Runs in the environment `torch-mlir`."""

import json
import os
import sys
import tempfile
from types import SimpleNamespace

import torch

from scripts.baselines import inductor


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


class Broken(torch.nn.Module):
    """Two graphs with a graph break between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        torch._dynamo.graph_break()
        return torch.tanh(self.second(x)) + 1


torch.manual_seed(0)
torch.set_num_threads(1)
whole = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Tanh())
model = (Broken() if "broken" in sys.argv else whole).eval()
x = torch.rand(512, 512)
with torch.no_grad():
    expected = model(x)
torch.set_num_threads(2)
inductor.prepare_machine()
call = inductor.prepare(SimpleNamespace(module=model))


def session() -> torch.Tensor:
    with torch.no_grad():
        return call(x)


with tempfile.TemporaryDirectory() as cache:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    if not os.fork():  # as the verification of a baseline does, which fills the cache
        session()
        os._exit(0)
    os.wait()
    inductor.compile_ahead(session)
before = {"threads": threads(), "compilations": inductor.compile_count()}
if before["threads"] > 1:  # a forked process would wait for threads that it does not have
    json.dump({"before": before}, sys.stdout)
    sys.exit()
if not os.fork():
    result = session()
    after = {
        "threads": threads(),
        "compilations": inductor.compile_count(),
        "equal": torch.allclose(result, expected, atol=1e-5),
    }
    json.dump({"before": before, "after": after}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)
os.wait()
