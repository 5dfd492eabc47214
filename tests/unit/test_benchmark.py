"""The command line of iree-benchmark-module, and the inputs that it is given."""

from pathlib import Path

import numpy as np
import pytest

from scripts.core.tensors import TensorType
from scripts.iree import session
from scripts.iree.session import Module


@pytest.fixture(autouse=True)
def tool(monkeypatch):
    monkeypatch.setattr(session, "tool", lambda name: f"/bin/{name}")


def command_on(device: str) -> list[str]:
    module = Module(Path("m.vmfb"), Path("w.irpa"), device)
    return session.command_line(module, ["--input=1xf32=@0.bin"], threads=3)


def test_the_tool_runs_what_was_verified():
    command = command_on("local-task")
    assert command[:5] == [
        "/bin/iree-benchmark-module",
        "--module=m.vmfb",
        "--parameters=model=w.irpa",
        "--function=main",
        "--device=local-task",
    ]
    assert "--input=1xf32=@0.bin" in command
    assert not [word for word in command if word.startswith("--benchmark_")]


@pytest.mark.parametrize("device", ["local-task", "local-sync"])
def test_a_cpu_has_its_threads_and_the_caching_allocator(device):
    flags = {"--task_topology_max_group_count=3", "--device_allocator=caching"}
    assert flags <= set(command_on(device))


@pytest.mark.parametrize("device", ["vulkan", "cuda://0", "hip"])
def test_a_gpu_has_neither(device):
    assert not [f for f in command_on(device) if f.startswith(("--task", "--device_allocator"))]


def test_inputs_are_raw_bytes_that_the_flags_name_with_their_types(tmp_path):
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array([True, False])]
    types = [TensorType("x", (2, 3), "float32"), TensorType("mask", (2,), "bool")]
    flags = session.write_inputs(tmp_path / "raw", arrays, types)
    assert flags == [
        f"--input=2x3xf32=@{tmp_path}/raw/0.bin",
        f"--input=2xi8=@{tmp_path}/raw/1.bin",
    ]
    assert (tmp_path / "raw/0.bin").read_bytes() == arrays[0].tobytes()
