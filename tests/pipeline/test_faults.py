"""Models that crash, hang or use too much memory give rows, and the run goes on."""

from __future__ import annotations

import os
import subprocess

import psutil
import pytest

from tests.checkouts import EAGER, keep_models

FAULTS = {
    "segfaults": "import ctypes; ctypes.string_at(0)",
    "hangs": "import time; time.sleep(3600)",
    "eats_memory": "held = [torch.ones(4 << 20) for _ in range(10**6)]",
    "raises": "raise RuntimeError('no such layer')",
    # Where its weights are counted, in a process of its own, then in the stage itself; then no more.
    "is_killed": "import os, pathlib; n = len(list(pathlib.Path('results').glob('killed*'))); "
    "n == 2 or pathlib.Path(f'results/killed{n}').touch() or os.kill(os.getpid(), 9)",
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


LINE = ("--cores", "2", "results/latency.csv", "--config", "frontends=torchmlir-stablehlo")
CELL = "leaves_a_child/torchmlir-stablehlo/llvm-cpu"


@pytest.fixture(scope="module")
def faulty(make_checkout):
    checkout = make_checkout(
        "faults",
        models={},
        targets={"llvm-cpu": {"backend": "llvm-cpu"}},
        baselines=EAGER,
        limits={
            stage: {"timeout_s": 45, "memory_mb": 1500}
            for stage in ("env", "reference", "export", "compile", "verify", "baseline")
        }
        | {"time": {"timeout_s": 120}},
    )
    keep_models(checkout)
    for name, fault in FAULTS.items():
        (checkout.path / f"models/{name}.py").write_text(MODEL.format(fault=fault))
    (checkout.path / "models/broken.py").write_text("def get_model(:")
    checkout.snakemake(*LINE)
    return checkout


@pytest.mark.parametrize(
    ("model", "status", "reason"),
    [
        ("segfaults", "crashed", "SIGSEGV"),
        ("hangs", "timeout", "time-limit"),
        ("eats_memory", "oom", "memory-limit"),
        ("raises", "error", "model-function"),
        ("is_killed", "crashed", "SIGKILL"),
        ("broken", "error", "model-file"),
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


def test_a_timeout_shows_where_it_hung(faulty):
    log = (faulty.path / "results/reference/hangs/log.txt").read_text()
    assert "/models/hangs.py" in log[log.index("most recent call first") :]


def test_nothing_is_left_running(faulty):
    """Other tests may run at the same time, in other folders."""
    running = list(psutil.process_iter(["cmdline", "cwd"]))
    left = [process for process in running if process.info["cwd"] == str(faulty.path)]
    # The fork servers see that the run has ended; nothing else may be there at all. One that just ends has no command line.
    lines = [process.info["cmdline"] for process in left if process.info["cmdline"]]
    servers = {"scripts.stages.fork_server", "tests.pipeline.forks"}
    assert [line for line in lines if not servers & set(line)] == []
    _, alive = psutil.wait_procs(left, timeout=30)
    assert alive == []


def test_failed_lists_each_failure_once_with_the_command_that_repeats_it(faulty):
    commands = faulty.vmfbench("failed", "--commands").splitlines()
    assert len(commands) == 6
    repeat = next(c for c in commands if "reference/raises" in c)
    again = subprocess.run(
        ["bash", "-c", repeat], cwd=faulty.path, capture_output=True, text=True, env=os.environ
    )
    assert again.returncode != 0
    assert "no such layer" in again.stderr


def test_the_next_run_makes_files_that_were_cut_again(faulty):
    (faulty.path / "models/raises.py").write_text(MODEL.format(fault="pass"))
    cut(faulty.path / f"results/compile/{CELL}/module.vmfb")
    cut(faulty.path / "results/baseline/leaves_a_child/eager/eval/verification.json")
    cut(faulty.path / "results/reference/raises/status.json")
    said = faulty.snakemake(*LINE).stdout
    assert "models/broken.py: not valid Python" in said
    assert outcome_of(faulty, "raises") == "ok"
    assert outcome_of(faulty, "hangs") == "timeout"
    assert outcome_of(faulty, "is_killed") == "ok"
    assert outcome_of(faulty, "leaves_a_child") == "ok"
    eager = [row for row in faulty.rows() if row["runtime"] == "eager"]
    assert {r["model"] for r in eager if r["status"] == "ok"} >= {"leaves_a_child", "raises"}


def test_the_run_after_that_has_nothing_left_but_a_model_that_was_mended(faulty):
    (faulty.path / "models/broken.py").write_text(MODEL.format(fault="pass"))
    said = faulty.snakemake(*LINE).stdout
    assert outcome_of(faulty, "leaves_a_child") == outcome_of(faulty, "broken") == "ok"
    assert "not valid Python" not in said
    assert "Nothing to be done" in faulty.snakemake("-n", *LINE).stdout


def outcome_of(checkout, model: str) -> str:
    return checkout.row(model, "torchmlir-stablehlo", "llvm-cpu")["status"]


def cut(path) -> None:
    """Leave the first half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
