"""Models that crash, hang and eat memory: rows, not the end of the run."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from tests.checkouts import EAGER, QUICK, keep_models

FAULTS = {
    "segfaults": "import ctypes; ctypes.string_at(0)",
    "hangs": "import time; time.sleep(3600)",
    "eats_memory": "held = [torch.ones(4 << 20) for _ in range(10**6)]",
    "raises": "raise RuntimeError('no such layer')",
    "leaves_a_child": "import subprocess; subprocess.Popen(['sleep', '86399'], start_new_session=True)",
}
MODEL = '''"""A model with a fault."""
import torch


def get_model():
    {fault}
    return torch.nn.ReLU()


def get_dummy_input():
    return torch.randn(4)
'''


@pytest.fixture(scope="module")
def faulty(make_checkout):
    checkout = make_checkout(
        "faults",
        models={},
        targets={"llvm-cpu": {"backend": "llvm-cpu"}},
        baselines=EAGER,
        measure=QUICK,
        limits={
            stage: {"timeout_s": 45, "memory_mb": 1500}
            for stage in ("env", "reference", "export", "compile", "measure", "baseline")
        },
    )
    keep_models(checkout)
    for name, fault in FAULTS.items():
        (checkout.path / f"models/{name}.py").write_text(MODEL.format(fault=fault))
    checkout.snakemake(
        *("--cores", "2", "results/latency.csv", "--config", "frontends=torchmlir-stablehlo")
    )
    return checkout


@pytest.mark.parametrize(
    ("model", "status", "reason"),
    [
        ("segfaults", "crashed", "SIGSEGV"),
        ("hangs", "timeout", "time-limit"),
        ("eats_memory", "oom", "memory-limit"),
        ("raises", "error", "RuntimeError"),
    ],
)
def test_a_fault_is_a_row_that_names_it(faulty, model, status, reason):
    row = faulty.row(model, "torchmlir-stablehlo", "llvm-cpu")
    assert (row["status"], row["stage"], row["reason"]) == (status, "reference", reason)
    assert row["detail"]
    assert row["blocked_by"] == f"reference {model}"
    assert row["verification_code"] == "EAGER_FAILED"
    assert not row["latency_ms"]


def test_a_fault_leaves_the_other_cells_alone(faulty):
    row = faulty.row("leaves_a_child", "torchmlir-stablehlo", "llvm-cpu")
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]


def test_nothing_is_left_running(faulty):
    left = [p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"]]
    assert ["sleep", "86399"] not in left
    assert not [c for c in left if "scripts.make_reference" in c]


def test_failed_lists_each_failure_once_with_the_command_that_repeats_it(faulty):
    done = subprocess.run(
        [sys.executable, "-m", "scripts.failed", "--commands"],
        cwd=faulty.path,
        capture_output=True,
        text=True,
        check=True,
    )
    commands = done.stdout.splitlines()
    assert len(commands) == 4
    repeat = next(c for c in commands if "models/raises.py" in c)
    again = subprocess.run(
        ["bash", "-c", repeat], cwd=faulty.path, capture_output=True, text=True, env=os.environ
    )
    assert again.returncode != 0
    assert "no such layer" in again.stderr


def test_a_failed_cell_runs_again_when_its_model_file_is_mended(faulty):
    (faulty.path / "models/raises.py").write_text(MODEL.format(fault="pass"))
    faulty.snakemake(
        *("--cores", "2", "results/latency.csv", "--config", "frontends=torchmlir-stablehlo")
    )
    assert faulty.row("raises", "torchmlir-stablehlo", "llvm-cpu")["status"] == "ok"
    assert faulty.row("hangs", "torchmlir-stablehlo", "llvm-cpu")["status"] == "timeout"
