"""Prints, as JSON, how forked processes end that run the backward pass of a compiled model. Runs in the environment
`torch-mlir`."""

import json
import os
import sys
import tempfile
from types import SimpleNamespace

import torch

from scripts.baselines import inductor
from scripts.baselines.sessions.torch_session import renew_thread_pool

FORKS = 16

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3))
x = torch.rand(2, 3, 16, 16)
inductor.prepare_machine()
call = inductor.prepare(SimpleNamespace(module=model))


def step() -> None:
    call(x).sum().backward()


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


with tempfile.TemporaryDirectory() as cache:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    if not (child := os.fork()):  # as the verification of a baseline does, which fills the cache
        step()
        os._exit(0)
    filled = exit_code(child)
    inductor.compile_ahead(lambda: call(x))
    torch.set_num_threads(2)
    threads = len(os.listdir("/proc/self/task"))
    ended = []
    for _ in range(FORKS):
        if not (child := os.fork()):
            renew_thread_pool()
            step()
            os._exit(0)
        ended.append(exit_code(child))
json.dump({"filled": filled, "threads": threads, "ended": ended}, sys.stdout)
