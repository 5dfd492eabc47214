"""Rows that are timed in turns: what they have, what times them again, and what a kill -9 costs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.checkouts import (
    EAGER,
    ON_CPU,
    WITH_INTERVALS,
    environment,
    in_environment,
    is_compared,
    keep_models,
)
from tests.pipeline.test_kill import assert_nothing_runs_in
from tests.pipeline.test_main_line import jobs_of

LSTM = '''"""A small LSTM: PyTorch still prepares in its second and third call."""
import torch


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(32, 32, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def get_model():
    return Small()


def get_dummy_input():
    return torch.randn(1, 8, 32)
'''
LOOP = """
import sys, time, torch
sys.path.insert(0, "models")
import lstm
torch.set_num_threads(1)
model, x = lstm.get_model().eval(), lstm.get_dummy_input()
best = 1e9
with torch.no_grad():
    for _ in range(300):
        start = time.perf_counter()
        model(x)
        best = min(best, time.perf_counter() - start)
print(best * 1e3)
"""
LINE = ("--cores", "2", "results/latency.csv", "--config")
CONV, LSTM_GROUP = "conv/cpu/eval", "lstm/cpu/eval"
ONE = ("frontends=torchmlir-torch", "models=conv")


@pytest.fixture(scope="module")
def ran(make_checkout):
    # On one thread: where tests beside this one take the cores, calls wait for a thread that has none.
    measure = WITH_INTERVALS | {"threads": 1}
    checkout = make_checkout("groups", models={}, targets=ON_CPU, baselines=EAGER, measure=measure)
    keep_models(checkout, "conv")
    (checkout.path / "models/lstm.py").write_text(LSTM)
    checkout.snakemake(*LINE, "frontends=torchmlir-torch,torchmlir-stablehlo")
    return checkout


def timing(ran, group: str = CONV) -> bytes:
    return (ran.path / f"results/time/{group}/timing.json").read_bytes()


def test_every_row_has_its_ratio_its_verdict_and_the_control_of_its_group(ran):
    assert len(ran.rows()) == 6
    for row in ran.rows():
        assert row["status"] == "ok", row["detail"]
        if row["runtime"] != "eager":
            assert row["verdict"] in ("faster", "slower", "same", "undecided")
        assert int(row["turns"]) >= int(row["generations"]) >= 1
        assert is_compared(row)
        if int(row["generations"]) < 5:  # on a machine that is busy
            assert row["doubt"]
            continue
        assert float(row["latency_low_ms"]) <= float(row["latency_ms"])
        assert float(row["latency_ms"]) <= float(row["latency_high_ms"])
        for name, ends in (("speedup_vs_eager", "speedup_vs_eager"), ("control_ratio", "control")):
            assert float(row[f"{ends}_low"]) <= float(row[f"{ends}_high"])
            if row[name]:  # not one that is wider than ±50 %
                assert float(row[f"{ends}_low"]) <= float(row[name]) <= float(row[f"{ends}_high"])
    of = json.loads(timing(ran))
    assert of["anchor"] == "conv/eager/eval"
    assert of["members"].keys() == {f"conv/{f}/llvm-cpu" for f in ("torchmlir-torch", "torchmlir-stablehlo")} | {"conv/eager/eval"}  # fmt: skip
    [part] = of["parts"]
    assert part["control"] in of["members"]


def plain_ms(ran) -> float:
    """The fastest of 300 calls of the LSTM in eager mode, in a plain loop."""
    command = [ran.path / ".venvs/torch-mlir/bin/python", "-c", LOOP]
    done = subprocess.run(command, cwd=ran.path, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])


def eager_ms(ran, model: str) -> float:
    [row] = [r for r in ran.rows() if (r["model"], r["runtime"]) == (model, "eager")]
    return float(row["latency_ms"])


def test_a_model_whose_first_calls_are_slow_has_the_latency_of_a_plain_loop(ran):
    """As with quick=true, below. A plan from a cold call was off by a factor of 1,000."""
    assert 1 / 20 < eager_ms(ran, "lstm") / plain_ms(ran) < 20


def test_the_same_line_again_and_a_narrower_one_time_nothing(ran):
    both = "frontends=torchmlir-torch,torchmlir-stablehlo"
    assert "Nothing to be done" in ran.snakemake(*LINE, both).stdout
    before = timing(ran), timing(ran, LSTM_GROUP)
    ran.snakemake(*LINE, *ONE)
    assert {(r["model"], r["target"]) for r in ran.rows()} == {("conv", "llvm-cpu"), ("conv", "")}  # fmt: skip
    assert len(ran.rows()) == 2
    assert (timing(ran), timing(ran, LSTM_GROUP)) == before
    assert "the timing of the last run is kept" in (ran.path / f"results/time/{CONV}/log.txt").read_text()  # fmt: skip
    ran.snakemake(*LINE, both)
    assert len(ran.rows()) == 6
    assert (timing(ran), timing(ran, LSTM_GROUP)) == before


def test_a_quick_run_of_a_file_has_its_latency_too(ran):
    ran.snakemake(*LINE, "file=models/lstm.py", "quick=true")
    assert {row["status"] for row in ran.rows()} == {"ok"}
    assert 1 / 20 < eager_ms(ran, "lstm") / plain_ms(ran) < 20


@pytest.fixture
def run(ran):
    """A run that times the group of conv, in the middle of its turns. `budget_s` has to be another one each time."""
    started: list[subprocess.Popen] = []

    def of(budget_s: int) -> tuple[subprocess.Popen, tuple[str, ...]]:
        line = (*LINE, *ONE, f"measure={{budget_s: {budget_s}, generations: 3}}")
        (ran.path / f"results/time/{CONV}/log.txt").unlink(missing_ok=True)
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "snakemake", *line],
                cwd=ran.path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=environment(),
            )
        )
        deadline = time.monotonic() + 300
        while not (is_timing(ran) and members(ran)):
            assert started[-1].poll() is None, "the run ended before its group was timed"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return started[-1], line

    yield of
    for one in started:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def is_timing(ran) -> bool:
    """Whether a generation of the group has been timed."""
    log = ran.path / f"results/time/{CONV}/log.txt"
    return log.is_file() and "generation: 3 members" in log.read_text()


def here(ran) -> list[psutil.Process]:
    return [
        one
        for one in psutil.process_iter(["cwd", "cmdline", "status"])
        if one.info["cwd"] == str(ran.path) and one.info["status"] != "zombie"
    ]


def members(ran, env: str = "iree") -> list[psutil.Process]:
    """The processes of members of an environment: its fork server has forked them."""
    found = []
    for one in here(ran):
        words = one.info["cmdline"] or []
        if "scripts.stages.fork_server" in words and f"/{env}/" in words[-1]:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                for below in one.children():
                    if below.status() != psutil.STATUS_ZOMBIE:
                        found.append(below)
    return found


def kill_members_until_ended(ran, snakemake: subprocess.Popen) -> None:
    """Kill each process of IREE's members; a single kill may hit one that has given its times."""
    deadline = time.monotonic() + 300
    while snakemake.poll() is None:
        assert time.monotonic() < deadline
        for member in members(ran):
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        time.sleep(0.05)


def outcomes(ran) -> dict[str, tuple[str, str, str]]:
    return {row["runtime"]: (row["status"], row["stage"], row["reason"]) for row in ran.rows()}


def assert_only_the_group_is_repeated(ran, line) -> None:
    jobs = jobs_of(ran.snakemake("-n", *line).stdout)
    assert jobs == [("time_group", CONV), ("aggregate_results", "")]
    ran.snakemake(*line)
    assert {status for status, *_ in outcomes(ran).values()} == {"ok"}


@pytest.mark.parametrize("graphs", ["whole", "broken"])
def test_inductor_compiles_before_a_fork_and_starts_threads_after_it(environments, graphs):
    python = environments / "torch-mlir/bin/python"
    found = in_environment(python, "inductor_in_torch", graphs, fork=False)
    assert found["before"] == {"threads": 1, "compilations": 2 if graphs == "broken" else 1}
    assert found["after"]["threads"] > 1
    assert found["after"]["compilations"] == found["before"]["compilations"]
    assert found["after"]["equal"]


def test_kernels_of_inductor_have_their_module_after_a_graph_break(environments):
    python = environments / "torch-mlir/bin/python"
    modules = in_environment(python, "inductor_profile_in_torch")
    assert sorted(modules) == ["1", "1.after", "1.before"]


def test_inductor_makes_a_header_once_per_machine(environments):
    """In a sandbox, it uses the one that is there. It uses none that others could have made."""
    python = environments / "torch-mlir/bin/python"
    found = in_environment(python, "inductor_machine_in_torch", fork=False)
    [header] = found["kept"]
    nothing: dict[str, list[str]] = {"asked": [], "made": []}
    assert found["first"] == found["again"] == nothing
    assert found["sandboxed"]["asked"]
    assert found["sandboxed"]["made"] == []
    assert found["unsafe"]["made"] == [header]


def test_forked_processes_run_the_backward_pass_of_a_compiled_model(environments):
    """Without a new thread pool, about one in three aborts."""
    result = in_environment(environments / "torch-mlir/bin/python", "backward_in_torch", fork=False)
    assert (result["filled"], result["threads"]) == (0, 1)
    assert set(result["ended"]) == {0}


def test_a_member_that_is_killed_is_a_row_and_the_others_are_timed(ran, run):
    snakemake, line = run(6)
    kill_members_until_ended(ran, snakemake)
    assert snakemake.wait(timeout=300) == 0
    assert outcomes(ran)["iree"] == ("crashed", "time", "SIGKILL")
    assert outcomes(ran)["eager"][0] == "ok"
    assert eager_ms(ran, "conv") > 0
    assert_nothing_runs_in(ran.path)
    assert_only_the_group_is_repeated(ran, line)


def test_a_coordinator_that_is_killed_leaves_nothing_running_and_no_timing(ran, run):
    snakemake, line = run(5)
    [coordinator] = [one for one in here(ran) if "scripts.stages.time_group" in (one.info["cmdline"] or [])]  # fmt: skip
    coordinator.kill()
    assert snakemake.wait(timeout=300) != 0
    assert_nothing_runs_in(ran.path)
    assert_only_the_group_is_repeated(ran, line)


def test_a_run_that_is_killed_leaves_nothing_running_and_repeats_the_group(ran, run):
    snakemake, line = run(4)
    snakemake.kill()
    snakemake.wait()
    assert_nothing_runs_in(ran.path)
    assert_only_the_group_is_repeated(ran, line)
