"""The main command on a convolution and a small transformer, and what a second run repeats."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
import zstandard

from scripts.core import requests
from scripts.core.tensors import Signature
from scripts.measure.timing.machine_limits import MachineLimits
from scripts.results.columns import COLUMNS
from tests.checkouts import QUICK, TINY_BERT, WITH_INTERVALS, is_compared, keep_models, shipped
from tests.declared import undeclared

pytestmark = pytest.mark.main

XLA = {
    "xla-stablehlo": shipped("baselines", "xla-stablehlo")["xla-stablehlo"]
    | {"program": "torchmlir-stablehlo", "default": False}
}
"""A baseline that runs of it name."""
FRONTENDS = ("torchmlir-torch", "torchmlir-stablehlo", "torchmlir-linalg", "torchxla-stablehlo")
ON_CUDA = ("torchmlir-torch", "torchmlir-stablehlo")
ONE_CELL = {"frontends": ["torchmlir-stablehlo"], "models": ["conv"]}
TARGETS = {
    "llvm-cpu": {
        "backend": "llvm-cpu",
        "opt_level": "O3",
        "overrides": {"bert-tiny": {"frontends": ["torchmlir-torch"]}},
    },
    "vulkan": {"backend": "vulkan", **ONE_CELL},
    "cuda": {"backend": "cuda", "frontends": [*ON_CUDA], "models": ["conv"]},
    "rocm": {"backend": "rocm", **ONE_CELL},
    "vulkan-ada": {"backend": "vulkan", "arch": "ada", **ONE_CELL},
}
BAD_FLAG = "--iree-hal-memoization=perhaps"
"""A flag that iree-compile knows, with a value that it rejects. (A run with an unknown flag does not start.)"""
CPU_CELLS = [*(("conv", frontend) for frontend in FRONTENDS), ("bert-tiny", "torchmlir-torch")]
ROWS = len(CPU_CELLS) + len(ON_CUDA) + 2 * 3 + 3
"""Cells on llvm-cpu and cuda, three baselines of two models, and the cells of the other targets."""
KERNELS = {
    "select": [{"softmax_forward": {"shape": ["64x32", "32x64"]}}],
    "dtype": "bf16",
    "frontends": ["torchmlir-torch"],
    "targets": ["llvm-cpu"],
    "baselines": ["eager"],
    "measure": QUICK,
}


@pytest.fixture(scope="module")
def ran(make_checkout):
    """One run of conv and a tiny BERT over all targets; the tests after it go on from there."""
    checkout = make_checkout(
        "main",
        models={"bert-tiny": TINY_BERT},
        targets=TARGETS,
        baselines=shipped("baselines", "eager", "inductor", "eager-cuda") | XLA,
        measure=WITH_INTERVALS,
        kernels=KERNELS,
    )
    # A model file outside models/, too: it is in the matrix under the entry's name alone.
    shutil.copy2(checkout.path / "models/bert.py", checkout.path / "bert.py")
    keep_models(checkout, "conv")
    checkout.output = checkout.snakemake(
        "--cores", "8", "results/latency.csv", "results/kernels.csv"
    ).stdout
    return checkout


def test_every_cell_and_baseline_has_exactly_one_row(ran):
    with (ran.path / "results/latency.csv").open(newline="") as file:
        assert next(csv.reader(file)) == [one.column for one in COLUMNS]
    cells = [(r["model"], r["runtime"], r["frontend"], r["target"]) for r in ran.rows()]
    assert len(cells) == len(set(cells)) == ROWS


def test_the_rows_on_the_cpu_are_timed_and_written_before_other_devices_are_compiled_for(ran):
    lines = map(json.loads, (ran.path / "results/logs/journal.jsonl").read_text().splitlines())
    stages = [line for line in lines if "cell" in line]
    groups = ("conv/cpu/eval", "bert-tiny/cpu/eval")
    timed = [s["end"] for s in stages if s["stage"] == "time" and s["cell"] in groups]
    others = [s["start"] for s in stages if s["stage"] == "compile" and "llvm-cpu" not in s["cell"]]
    assert len(timed) == len(groups)
    assert max(timed) < min(others)

    names = ("model", "runtime", "frontend", "target", "status", "latency_ms")
    with (ran.path / "results/cpu/latency.csv").open(newline="") as file:
        first = [[row[name] for name in names] for row in csv.DictReader(file)]
    assert first == [[row[name] for name in names] for row in ran.rows() if row["device"] == "cpu"]
    written = (ran.path / "results/cpu/latency.csv").stat().st_mtime
    assert max(timed) < written < min(s["end"] for s in stages if s["stage"] == "machine_limits")
    shown = ran.output.index("the rows on the CPU: results/cpu/latency.csv")
    assert ran.output.count("Latency in ms per call", 0, shown) == 1


@pytest.mark.parametrize(("model", "frontend"), CPU_CELLS)
def test_the_cpu_cells_are_verified_and_timed(ran, model, frontend):
    row = ran.row(model, frontend, "llvm-cpu")
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert float(row["latency_ms"]) > 0
    assert is_compared(row)
    assert int(row["dispatch_count"]) > 0
    assert int(row["vmfb_bytes"]) > 1000
    assert float(row["rmse_vs_fp64"]) < 1e-4
    for column in (
        "compile_s",
        "export_s",
        "load_ms",
        "first_call_ms",
        "run_rss_mb",
        "p50_ms",
        "verdict",
    ):
        assert row[column], column


@pytest.mark.parametrize("target", ["cuda", "rocm"])
def test_a_target_without_its_device_is_compiled_and_unavailable(ran, target):
    row = ran.row("conv", "torchmlir-stablehlo", target)
    if row["status"] == "ok":  # a machine that has one
        assert row["verification_code"] == "PASS"
        return
    assert (row["status"], row["stage"]) == ("unavailable", "verify")
    assert row["detail"]
    assert int(row["vmfb_bytes"]) > 1000
    assert not row["latency_ms"]


def test_vulkan_is_measured_on_a_device_or_says_that_there_is_none(ran):
    row = ran.row("conv", "torchmlir-stablehlo", "vulkan")
    drivers = [*Path("/usr/share/vulkan/icd.d").glob("*.json")]
    if drivers:
        assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
        assert row["device_name"]
    else:
        assert row["status"] == "unavailable"


def test_a_device_that_lacks_the_profile_of_a_module_is_unavailable_for_it(ran):
    row = ran.row("conv", "torchmlir-stablehlo", "vulkan-ada")
    if row["status"] == "ok":  # a machine with such a GPU
        assert row["verification_code"] == "PASS"
        return
    drivers = [*Path("/usr/share/vulkan/icd.d").glob("*.json")]
    assert (row["status"], row["stage"]) == ("unavailable", "verify"), row["detail"]
    assert row["reason"] == ("device-profile" if drivers else "no-device")
    assert "lacks subgroups of 32" in row["detail"] or not drivers


def test_a_row_has_a_latency_exactly_where_it_is_verified(ran):
    for row in ran.rows():
        verified = row["verification_code"] == "PASS"
        assert bool(row["latency_ms"]) == verified == (row["status"] == "ok"), row
        if not verified:
            assert row["reason"], row
            assert row["detail"], row
            assert (ran.path / row["log"]).is_file(), row


def test_programs_name_their_parameters_and_hold_no_weight(ran):
    for frontend in FRONTENDS:
        text = (ran.path / f"results/export/conv/{frontend}/program.mlir").read_text()
        assert '#flow.parameter.named<"model"::"0.weight">' in text
        assert len(text) < 10_000
        assert 'dense<"0x' not in text
        assert text.count("@main") == 1


def test_no_flag_is_unknown_or_deprecated_to_the_pinned_compiler(ran):
    for target in TARGETS:
        log = ran.path / f"results/compile/conv/torchmlir-stablehlo/{target}/log.txt"
        assert "deprecat" not in log.read_text().lower()
        assert "unknown command line" not in log.read_text().lower()


def test_weights_are_written_once_under_their_state_dict_names(ran):
    signature = Signature.read(ran.path / "results/reference/conv/signature.json")
    assert [p.name for p in signature.parameters] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    size = (ran.path / "results/reference/conv/weights.irpa").stat().st_size
    assert 4 * (16 * 27 + 16 + 32 * 144 + 32) <= size < 64 * 1024


def test_the_records_agree_with_the_rows_and_keep_every_repetition(ran):
    lines = (ran.path / "results/results.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == len(ran.rows())
    assert {path for one in records for path in undeclared(one)} == set()
    for one, row in zip(records, ran.rows(), strict=True):
        assert one["outcome"]["status"] == row["status"]
        if one["latency"]:
            assert len(one["latency"]["values_ms"]) == int(row["generations"])


def test_speed_ups_have_intervals_over_the_generations_of_their_group(ran):
    lines = (ran.path / "results/results.jsonl").read_text().splitlines()
    timed = [latency for line in lines if (latency := json.loads(line)["latency"])]
    on_cpu = [one for one in timed if one["speedup_vs_eager"] or "eager" in one["unknown"]]
    assert len(on_cpu) == len(CPU_CELLS) + 2 * 2
    for one in on_cpu:
        assert one["generations"] == len(one["values_ms"]) == len(one["anchor_ms"])
        if one["generations"] < 5:  # other tests took the machine for twice the budget
            assert "an interval needs 5 generations" in one["doubt"]
            # eager's ratio to itself is 1 exactly, however often it is timed
            assert one["speedup_vs_eager_low"] in (
                (1,) if one["speedup_vs_eager"] == 1 else (None,)
            )
            continue
        assert one["control_low"] <= one["control_ratio"] <= one["control_high"]
        assert one["anchor"].startswith("eager/eval, PyTorch ")
        for base in ("eager", "inductor"):
            name = f"speedup_vs_{base}"
            assert one[f"{name}_low"] <= (one[name] or one[f"{name}_high"]) <= one[f"{name}_high"]
            assert (one[name] is None) == (base in one["unknown"])


def test_kernels_are_measured_in_the_same_run_beside_the_limits_of_the_machine(ran):
    with (ran.path / "results/kernels.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    runtimes = [(row["shape"], row["runtime"]) for row in found]
    assert sorted(runtimes) == sorted((s, r) for s in ("64x32", "32x64") for r in ("eager", "iree"))
    for row in found:
        assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
        assert int(row["memory_bytes"]) == 2 * 64 * 32 * 2
        moved, seconds = int(row["memory_bytes"]), float(row["latency_ms"]) / 1e3
        assert float(row["gb_per_s"]) == pytest.approx(moved / seconds / 1e9, rel=1e-4)
        share = float(row["gb_per_s"]) / float(row["machine_gb_per_s"])
        assert float(row["bandwidth_share"]) == pytest.approx(share, rel=1e-4)
    limits = MachineLimits.read(ran.path / "results/machine_limits/cpu/limits.json")
    assert {(s.what, s.through) for s in limits.samples} == {
        (what, through) for what in ("triad", "product") for through in ("torch", "iree")
    }
    assert limits.gflop_per_s("f32") > 0 < limits.gflop_per_s("bf16")
    assert (ran.path / "results/kernels/softmax_forward.svg").stat().st_size > 1000
    assert "Geometric means\n" in ran.output


def test_rows_say_how_close_they_are_to_what_the_device_can_do(ran):
    flop = 2 * (64**2 * 16 * 3 * 9 + 32**2 * 32 * 16 * 9)  # the two convolutions of conv
    measured = [row for row in ran.rows() if row["latency_ms"]]
    assert {row["runtime"] for row in measured} == {"iree", "eager", "inductor"}
    for row in measured:
        assert float(row["gflop"]) > 0 < float(row["moved_bytes"])
        seconds = float(row["latency_ms"]) / 1e3
        rate = float(row["moved_bytes"]) / seconds / 1e9
        assert float(row["gb_per_s"]) == pytest.approx(rate, rel=1e-4)
        if row["model"] == "conv":
            assert float(row["gflop"]) == pytest.approx(flop / 1e9, rel=1e-4)
        # Limits that were measured while other work ran may be below what a call reaches, which the row then says.
        too_low = "the count or the limits are wrong" in row["no_limit_share"]
        if row["device"] == "cpu" and not too_low:
            at_least = row["limit_share_low"] or row["limit_share"]
            assert 0 < float(at_least) <= 1 + 1e-6, row["no_limit_share"]
        assert bool(row["limit_share"]) != bool(row["no_limit_share"])


@pytest.mark.full
def test_a_reproducer_times_the_same_module_with_nothing_but_the_wheels_of_iree(ran, tmp_path, request):  # fmt: skip
    """Before a release, it installs them."""
    ran.vmfbench("bundle", "conv/torchmlir-torch/llvm-cpu", "-o", tmp_path)
    packed = tmp_path / "conv__torchmlir-torch__llvm-cpu.tar.zst"
    with zstandard.open(packed) as file, tarfile.open(fileobj=file, mode="r|") as tar:
        tar.extractall(tmp_path / "fresh", filter="data")
    folder = tmp_path / "fresh/conv__torchmlir-torch__llvm-cpu"
    there = [] if request.config.getoption("--release") else [ran.path / ".venvs/iree/bin"]
    # The environment that it makes is used once: it needs no bytecode.
    env = os.environ | {"PIP_NO_COMPILE": "1"}
    done = subprocess.run(["./run.sh", *there], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "BM_main" in done.stdout
    assert (folder / "module.vmfb").stat().st_size > 0
    assert "iree-benchmark-module \\\n" in (folder / "ISSUE.md").read_text()


def test_what_inductor_compiled_is_kept_for_its_timing(ran):
    assert len(list(ran.path.glob("results/baseline/*/inductor/eval/cache"))) == 2
    assert not list(ran.path.glob("results/baseline/*/eager/eval/cache"))


def test_the_run_ends_with_a_table_and_an_account_of_its_time(ran):
    assert "rows, " in ran.output
    assert "Latency in ms per call" in ran.output
    assert (ran.path / "results/latency.md").read_text().startswith("# Latencies\n")
    assert "with a verified latency" in ran.output
    assert re.search(r"no stage ran for \d+% of the (rest|time)", " ".join(ran.output.split()))
    assert re.search(r"\bverify\W+\d+\W", ran.output)
    assert re.search(r"\[ ?29/", ran.output)


ANALYSED = ("llvm-cpu", "cuda", "rocm", "vulkan")


@pytest.fixture(scope="module")
def analysed(ran):
    """The code and the parts of the compile time of conv on each target, by one path, and on the CPU by a second one."""
    chosen = ("models=conv", "frontends=torchmlir-stablehlo,torchxla-stablehlo", f"targets={','.join(ANALYSED)}")  # fmt: skip
    ran.snakemake("--cores", "8", "code", "compile_time", "--config", *chosen)
    return ran


@pytest.mark.full
def test_a_run_compared_with_itself_has_the_same_code_on_each_target(analysed):
    ran = analysed
    read = {
        path.parent.name: json.loads(path.read_text())
        for path in ran.path.glob("results/code/conv/iree/*/*/code.json")
    }
    assert {*read} == {*ANALYSED}
    for code in read.values():
        assert sum("conv" in dispatch["name"] for dispatch in code["functions"]) == 2
        assert all(
            dispatch["instructions"] and dispatch["tiling"] for dispatch in code["functions"]
        )
    cells = ("--cell", "conv/*-stablehlo/llvm-cpu")
    said = ran.vmfbench("compare", "results", "results", "--why", *cells, "--format", "json")
    codes = json.loads(said)["codes"]
    assert [(code["host"], code["changed"], code["unknown"]) for code in codes] == [
        (False, [], "")
    ] * 2


@pytest.mark.full
def test_the_parts_of_compile_time_add_up_on_each_target(analysed):
    ran = analysed
    measured = [*ran.path.glob("results/compile_time/conv/iree/*/*/compile.json")]
    assert {path.parent.name for path in measured} == {*ANALYSED}
    for path in measured:
        cell = f"conv/{path.parent.parent.name}/{path.parent.name}"
        times = json.loads(ran.vmfbench("why", "--compile", "--json", cell))
        assert times["program"]["status"] == "ok"
        passes = sum(part["s"] for part in times["passes"])
        # A pass that runs others, and is not known to, would count twice.
        assert times["total_s"] / 2 < passes <= times["total_s"], cell
        assert [part["name"] for part in times["phases"]][-2:] == ["hal", "vm"]
        convolutions = [e for e in times["executables"] if "conv" in str(e["functions"])]
        assert {node[2] for e in convolutions for node in e["nodes"]} >= {"0", "2"}
        assert {e["status"] for e in times["executables"]} == {"ok"}


@pytest.mark.full
def test_a_final_file_that_is_cut_short_is_made_again(ran):
    csv_file = ran.path / "results/latency.csv"
    whole = csv_file.read_bytes()
    csv_file.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    done = ran.snakemake("--cores", "8", "results/latency.csv")
    assert "results/latency.csv is damaged: it has " in done.stdout
    assert "[1/1] aggregate_results" in done.stdout
    assert csv_file.read_bytes() == whole


def test_the_same_line_again_has_nothing_to_do(ran):
    done = ran.snakemake("--cores", "8", "results/latency.csv")
    assert "Nothing to be done" in done.stdout


def test_a_wrong_result_is_a_failure_without_a_latency(ran, tmp_path):
    """The module of one model compared with golden outputs that were altered."""
    import numpy as np

    reference = ran.path / "results/reference/conv"
    golden = dict(np.load(reference / "golden.npz"))
    for key in ("golden.0", "fp64.0"):  # nearer to float64 than golden is no failure
        golden[key] = golden[key] + 0.1
    np.savez(tmp_path / "golden.npz", **golden)
    verified = requests.read(ran.path / "results/verify/conv/torchmlir-torch/llvm-cpu")
    verified.replaced(golden=tmp_path / "golden.npz").write(tmp_path)
    command = verified.command(tmp_path)
    done = subprocess.run(command, cwd=ran.path, capture_output=True, text=True)
    assert done.returncode == 4
    assert "beyond tol" in done.stderr
    measured = json.loads((tmp_path / "verification.json").read_text())
    assert measured["verification"]["code"] == "FAIL"


DUMPS = "results/dumps/conv/iree/torchmlir-torch/llvm-cpu/files.json"


@pytest.fixture(scope="module")
def further(ran):
    """The stages that a run of rows has only where it is asked: a training step, dumps, and a trace."""
    wanted = ("results/latency.csv", "results/operators/traces/conv.txt", DUMPS)
    one = ("models=conv", "frontends=torchmlir-torch", "targets=llvm-cpu", "baselines=eager")
    ran.snakemake("--cores", "8", *wanted, "--config", *one, "tests=eval,train")
    return ran


def test_a_training_step_is_a_row_beside_the_forward_pass(further):
    rows = {(row["test"], row["runtime"]): row["status"] for row in further.rows()}
    assert rows == {(t, r): "ok" for t in ("eval", "train") for r in ("iree", "eager")}


def test_a_trace_has_the_operators_of_the_model(further):
    assert "aten.convolution" in (further.path / "results/operators/traces/conv.txt").read_text()


def test_dumps_have_the_ir_of_the_module(further):
    assert [*(further.path / DUMPS).parent.rglob("*.mlir")]


@pytest.mark.full
def test_a_profile_names_the_modules_of_dispatches_and_kernels(ran):
    frontends = ("torchmlir-stablehlo", "torchxla-stablehlo")
    chosen = ("models=conv", f"frontends={','.join(frontends)}", "targets=llvm-cpu")
    ran.snakemake(
        "--cores", "8", "profile", "--config", *chosen, "baselines=eager,inductor,xla-stablehlo"
    )
    for frontend in frontends:
        flop = {"0": 2 * 64**2 * 16 * 3 * 9, "2": 2 * 32**2 * 32 * 16 * 9}
        for against in ("eager", "inductor", "xla-stablehlo"):
            cell = f"conv/{frontend}/llvm-cpu"
            account = json.loads(ran.vmfbench("why", cell, "--against", against, "--json"))
            regions = {region["name"]: region for region in account["regions"]}
            for name, count in flop.items():
                assert regions[name]["flop"] == count
                assert regions[name]["iree_ms"] > 0
                assert regions[name]["other_ms"] > 0
            gap = account["call_ms"]["iree"] - account["call_ms"][against]
            assert sum(term["ms"] for term in account["terms"].values()) == pytest.approx(gap)
        products = [dispatch for dispatch in account["dispatches"] if "conv" in " ".join(dispatch["operators"])]  # fmt: skip
        assert {name for dispatch in products for name in dispatch["modules"]} == {"0", "2"}
        assert any(dispatch["code"]["loop"]["fused"] for dispatch in products)
    [*_, last] = products
    shown = ran.vmfbench("why", cell, "--dispatch", last["function"], "--passes")
    assert "\nchosen: " in shown
    assert "-iree-llvmcpu-select-lowering-strategy.mlir\n" in shown


@pytest.mark.full
def test_only_what_a_bad_flag_broke_fails_and_only_that_runs_after_its_repair(ran, tmp_path):
    broken = TARGETS | {"cuda": TARGETS["cuda"] | {"flags": [BAD_FLAG]}}
    ran.configure(targets=broken)
    done = ran.snakemake("--cores", "8", "results/latency.csv")
    assert done.returncode == 0
    row = ran.row("conv", "torchmlir-torch", "cuda")
    assert (row["status"], row["stage"], row["reason"]) == ("error", "compile", "bad-flag")
    assert "--iree-hal-memoization" in row["detail"]
    assert row["flags"] == BAD_FLAG
    assert row["blocked_by"] == "compile conv/torchmlir-torch/cuda"
    assert len(ran.rows()) == ROWS
    assert ran.row("conv", "torchmlir-torch", "llvm-cpu")["status"] == "ok"
    assert ran.row("conv", "torchmlir-stablehlo", "rocm")["reason"] != "bad-flag"
    ran.vmfbench("bundle", "conv/torchmlir-torch/cuda", "-o", tmp_path)
    tools = ran.path / ".venvs/iree/bin"
    script = tmp_path / "conv__torchmlir-torch__cuda/run.sh"
    shown = subprocess.run([str(script), str(tools)], capture_output=True, text=True)
    assert (shown.returncode, "--iree-hal-memoization" in shown.stderr) == (1, True)

    ran.configure(targets=TARGETS)
    jobs = jobs_of(ran.snakemake("-n", "results/latency.csv").stdout)
    chains = {f"conv/{f}/cuda" for f in ON_CUDA}
    rules = ("compile_iree", "compile_iree_by_remedy", "verify_iree")
    for rule in rules:
        assert {cell for name, cell in jobs if name == rule} == chains
    # And the group that the rows are in, and the aggregation.
    assert len(jobs) == len(rules) * len(chains) + 2
    ran.snakemake("--cores", "8", "results/latency.csv")
    assert ran.row("conv", "torchmlir-torch", "cuda")["status"] in ("unavailable", "ok")


@pytest.mark.full
def test_a_forced_retry_runs_its_class_once(ran):
    unavailable = sum(r["status"] == "unavailable" for r in ran.rows())
    assert unavailable
    jobs = jobs_of(
        ran.snakemake("-n", "results/latency.csv", "--config", "retry=unavailable").stdout
    )
    # The rows and their groups, the limits of devices that are not there, and the aggregation.
    absent = {row["device"] for row in ran.rows() if row["reason"] == "no-device"}
    rules = [rule for rule, _ in jobs]
    assert rules.count("verify_iree") + rules.count("verify_baseline") == unavailable
    assert rules.count("measure_machine_limits") == len(absent)
    assert {"time_group", "aggregate_results"} <= set(rules)
    ran.snakemake("--cores", "8", "results/latency.csv", "--config", "retry=unavailable")
    assert "Nothing to be done" in ran.snakemake("--cores", "8", "results/latency.csv").stdout


@pytest.mark.full
def test_selecting_narrows_the_rows_and_leaves_the_rest_done(ran):
    narrow = ("--config", "models=conv", "frontends=torchmlir-*o*", "targets=llvm-cpu")
    timed = (ran.path / "results/time/conv/cpu/eval/timing.json").read_bytes()
    ran.snakemake("--cores", "8", "results/latency.csv", *narrow)
    assert {r["model"] for r in ran.rows()} == {"conv"}
    assert {r["target"] for r in ran.rows() if r["runtime"] == "iree"} == {"llvm-cpu"}
    jobs = jobs_of(ran.snakemake("-n", "results/latency.csv").stdout)
    # The groups are looked at again, and nothing is timed again.
    assert {rule for rule, _ in jobs} <= {"time_group", "aggregate_cpu", "aggregate_results"}
    assert (ran.path / "results/time/conv/cpu/eval/timing.json").read_bytes() == timed


@pytest.mark.full
def test_expectations_decide_the_exit_code_of_check(ran):
    ran.configure(expect={"*/*/llvm-cpu": {"status": "error", "stage": "compile"}})
    done = ran.snakemake("check", check=False)
    assert done.returncode == 1
    assert "conv/torchmlir-torch/llvm-cpu" in done.stdout


@pytest.mark.full
def test_a_local_build_is_a_toolchain_and_what_it_compiled_is_made_again_with_it(
    ran, environments, tmp_path
):
    site = next((environments / "iree").glob("lib/python*/site-packages"))
    tree = tmp_path / "build"
    shutil.copytree(site / "iree", tree / "iree", copy_function=os.link)
    ran.configure(targets=TARGETS, expect={}, toolchains={"build": {"iree": str(tree)}})
    only = ("--config", "models=conv", "frontends=torchmlir-torch", "targets=llvm-cpu", "baselines=eager", "toolchains=pinned,build")  # fmt: skip
    ran.snakemake("--cores", "8", "results/latency.csv", *only)
    row, pinned = (ran.row("conv", "torchmlir-torch", t) for t in ("llvm-cpu@build", "llvm-cpu"))
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert (row["toolchain"], pinned["toolchain"]) == ("build", "pinned")
    assert re.fullmatch(r"3\.\d+\.\S+ @ [0-9a-f]{12}", row["iree_build"])
    assert row["iree_version"] == row["iree_build"].partition(" ")[0]
    assert row["dispatch_count"] == pinned["dispatch_count"]
    used = (ran.path / ".venvs/iree@build/bin/iree-compile").resolve()
    assert used.is_relative_to(tree)
    again = ran.snakemake("--cores", "8", "results/latency.csv", *only)
    assert "Nothing to be done" in again.stdout

    builds = ("--toolchain", "pinned", "build")
    compared = json.loads(ran.vmfbench("compare", *builds, "--format", "json", check=False))
    assert (compared["cells"], compared["outcomes"]) == (1, [])
    # On a busy machine there may be too few generations.
    is_compared = [one["basis"] for one in compared["latencies"]] == ["in turns"]
    assert is_compared or "an interval needs" in str(compared["not_compared"])

    # Built again: another file of the same content.
    program = used.read_bytes()
    used.unlink()
    used.write_bytes(program)
    used.chmod(0o755)
    jobs = jobs_of(ran.snakemake("-n", "results/latency.csv", *only).stdout)
    cell = "conv/torchmlir-torch/llvm-cpu@build"
    timed = ("time_group", "conv/cpu/eval")
    assert timed in jobs
    found = {of for rule, of in jobs if rule != "aggregate_results" and (rule, of) != timed}
    assert found == {cell, "iree@build"}
    assert {rule for rule, _ in jobs} >= {"make_env", "compile_iree", "verify_iree"}


def remedy_without(flag: str, path: Path) -> str:
    """Declare, in a checkout, a remedy that drops a flag, and no other; its name."""
    remedy = {
        **dict.fromkeys(("does", "why", "seen"), "of a test"),
        "versions": {},
        "reasons": ["bad-flag"],
        "drop_flags": [flag],
    }
    table = {"order": {}, "remedies": {"without-it": remedy}}
    (path / "workflow/remedies.yaml").write_text(yaml.safe_dump(table))
    return "without-it"


@pytest.mark.full
def test_a_module_by_a_remedy_is_measured_once_and_its_first_error_stays(ran):
    bad = BAD_FLAG
    target = {"backend": "llvm-cpu", "flags": [bad], "remedies": [remedy_without(bad, ran.path)]}
    ran.configure(targets={"remedied": target}, kernels=None, expect={"conv/*/remedied": "ok"})
    only = ("--config", "models=conv", "frontends=torchmlir-torch", "baselines=eager")
    said = ran.snakemake("--cores", "8", "results/latency.csv", *only).stdout
    assert "compiled for remedied: 0 as asked, 1 by remedy, 0 not at all" in said
    row = ran.row("conv", "torchmlir-torch", "remedied")
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert (row["remedy"], row["frontend_used"]) == ("without-it", "torchmlir-torch")
    assert (row["first_error"], row["flags"]) == ("bad-flag", bad)
    assert int(row["vmfb_bytes"]) > 1000
    again = ran.snakemake("-n", "results/latency.csv", *only)
    assert "Nothing to be done" in again.stdout


@pytest.mark.full
def test_what_tuning_finds_is_verified_and_used_where_a_target_asks_for_it(ran):
    target = {"backend": "llvm-cpu", "opt_level": "O1"}
    ran.configure(
        targets={"cpu": target}, kernels=None, tune={"budget_s": 8}, expect={"conv/*/cpu": "ok"}
    )
    only = ("--config", "models=conv", "frontends=torchmlir-torch", "baselines=eager")
    said = ran.snakemake("--cores", "8", "results/tuned.csv", *only).stdout
    assert "Tuned models" in said
    with (ran.path / "results/tuned.csv").open(newline="") as file:
        rows = {row["frontend"] or row["runtime"]: row for row in csv.DictReader(file)}
    assert rows.keys() == {"tuned", "default", "eager"}
    for row in rows.values():
        assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
        assert float(row["latency_ms"]) > 0
    report = json.loads((ran.path / "results/tune/conv/cpu/report.json").read_text())
    passed = [one for one in report["candidates"] if one["timing"]]
    assert {one["frontend"] for one in passed} == {"torchmlir-torch"}
    assert "torchmlir-torch-as-configured" in {one["name"] for one in passed}
    again = ran.snakemake("--cores", "8", "results/tuned.csv", *only)
    assert "Nothing to be done" in again.stdout

    file = ran.path / "results/tuned/conv/cpu.yaml"
    result = yaml.safe_load(file.read_text())
    assert result["kept"] == (rows["tuned"]["kept"] == "True")
    # Whatever was the fastest here: another level is a gain that can be told from the row.
    file.write_text(yaml.safe_dump(result | {"kept": True, "opt_level": "O3"}))
    ran.configure(targets={"cpu": target | {"tuned": "auto"}})
    ran.snakemake("--cores", "8", "results/latency.csv", *only)
    row = ran.row("conv", "torchmlir-torch", "cpu")
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert (row["tuned"], row["opt_level"]) == ("results/tuned/conv/cpu.yaml", "O3")


def jobs_of(dry_run: str) -> list[tuple[str, str]]:
    """(rule, cell) of every job that a dry run lists."""
    jobs, rule = [], ""
    for line in dry_run.splitlines():
        if line.strip().startswith(("rule ", "localrule ")):
            rule = line.split()[1].rstrip(":")
            jobs.append((rule, ""))
        elif line.strip().startswith("wildcards: ") and jobs:
            values = [pair.split("=", 1)[1] for pair in line.strip()[11:].split(", ")]
            jobs[-1] = (rule, "/".join(values))
    return jobs
