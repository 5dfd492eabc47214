"""Prints, as JSON, what inductor compiles before and after a fork. Runs in the environment `torch-mlir`."""

import json
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch

from scripts.baselines import inductor
from scripts.core import temporary


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def asks_the_compiler() -> bool:
    """Whether a process with a TMPDIR of its own asks the compiler about vector instructions, though the machine's
    folder has the answer."""
    with tempfile.TemporaryDirectory() as machine, tempfile.TemporaryDirectory() as own:
        for folder in (machine, own):
            if not os.fork():
                os.environ |= {"TMPDIR": folder, temporary.MACHINE: machine}
                tempfile.tempdir = None
                inductor.prepare(SimpleNamespace(module=torch.nn.Identity()))
                os._exit(0)
            os.wait()
        assert any(Path(machine).rglob("*.so"))
        return any(Path(own).rglob("*.so"))


asks = asks_the_compiler()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Tanh()).eval()
x = torch.rand(512, 512)
with torch.no_grad():
    expected = model(x)
torch.set_num_threads(2)
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
    json.dump({"asks": asks, "before": before, "after": after}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)
os.wait()
