"""PyTorch/XLA: its frontend, its baselines in eval and train, their times and their dumps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from subprocess import PIPE

import pytest
import yaml

from tests.checkouts import (
    ON_CPU,
    QUICK,
    TINY_BERT,
    in_environment,
    is_compared,
    keep_models,
    shipped,
)

BASELINES = shipped("baselines", "eager", "inductor", "xla", "openxla")
XLA_FRONTEND = shipped("frontends", "torchxla-stablehlo")
XLA_FRONTEND["torchxla-bare"] = {"exporter": "torch_xla", "env": "torch-xla", "options": {"rewrites": "none"}}  # fmt: skip


@pytest.fixture(scope="module")
def ran(make_checkout):
    """A tiny BERT and conv through PyTorch/XLA's lowering path in eval and train; conv with all baselines."""
    checkout = make_checkout(
        "xla",
        models={"bert-tiny": TINY_BERT},
        frontends=XLA_FRONTEND,
        targets={
            "llvm-cpu": ON_CPU["llvm-cpu"]
            | {"overrides": {"[!b]*": {"frontends": ["!torchxla-bare"]}}}
        },
        baselines=BASELINES,
        tests=["eval", "train"],
        measure=QUICK | {"collect": ["profiler", "operators", "dynamo_counters"]},
    )
    shutil.copy2(checkout.path / "models/bert.py", checkout.path / "bert.py")
    keep_models(checkout, "conv")
    line = ("--cores", "2", "results/latency.csv", "--config")
    checkout.snakemake(*line, "models=bert-tiny", "baselines=eager")
    checkout.others = checkout.rows(), records(checkout)
    checkout.snakemake(*line, "models=conv")
    return checkout


def records(checkout) -> list[dict]:
    lines = (checkout.path / "results/results.jsonl").read_text().splitlines()
    return list(map(json.loads, lines))


def record(checkout, model: str, runtime: str, test: str, frontend: str | None = None) -> dict:
    """The one JSONL record of a baseline, or of a frontend."""
    found = [
        r
        for r in checkout.others[1] + records(checkout)
        if (r["model"]["name"], r["experiment"]["runtime"], r["experiment"]["test"])
        == (model, runtime, test)
        and frontend in (None, r["experiment"]["frontend"])
    ]
    assert len(found) == 1
    return found[0]


def row_of(checkout, model: str, frontend: str) -> dict[str, str]:
    """The one row of a lowering path."""
    rows = checkout.others[0] + checkout.rows()
    [row] = [r for r in rows if (r["model"], r["frontend"]) == (model, frontend)]
    return row


def cell(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[key] for key in ("model", "runtime", "test", "frontend", "target"))


@pytest.mark.parametrize("model", ["conv", "bert-tiny"])
def test_the_lowering_path_through_pytorch_xla_is_verified_on_the_same_archive(ran, model):
    row = row_of(ran, model, "torchxla-stablehlo")
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert float(row["latency_ms"]) > 0
    assert row["frontend_version"] == "2.9.0"
    text = (ran.path / f"results/export/{model}/torchxla-stablehlo/program.mlir").read_text()
    assert '#flow.parameter.named<"model"::"' in text
    assert text.count("@main") == 1


@pytest.mark.parametrize("model", ["conv", "bert-tiny"])
def test_a_training_step_is_verified_with_what_it_changes_and_followed(ran, model):
    row = row_of(ran, model, "torchxla-stablehlo+train")
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert (row["test"], row["train_steps"]) == ("train", "10/10")
    assert float(row["latency_ms"]) > 0
    assert is_compared(row)
    found = record(ran, model, "iree", "train", "torchxla-stablehlo+train")
    assert found["experiment"]["optimizer"] == {"name": "SGD", "lr": 0.01}
    first = "kernels-transposed-first"
    assert (first in row["rewrites"]) == (model == "conv")
    assert first not in row_of(ran, model, "torchxla-stablehlo")["rewrites"]


def used_at_load(program: Path, iree_compile: Path) -> set[str]:
    """The weights of a program from which its module computes something when it is loaded, with packed operands."""
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    flags += ["--iree-opt-level=O3", "--iree-dispatch-creation-data-tiling", "--compile-to=flow"]
    done = subprocess.run([iree_compile, *flags, program], stdout=PIPE, text=True, check=True)
    initializers = re.findall(r"^  util\.initializer.*?^  }", done.stdout, re.DOTALL | re.MULTILINE)
    loaded = re.findall(r"util\.global\.load (?:immutable )?@(\S+)", "".join(initializers))
    return {name for name in loaded if "hoisted" not in name}


def test_what_is_computed_from_weights_that_change_is_part_of_a_training_step(ran):
    folder, compiler = ran.path / "results/export/bert-tiny", ran.path / ".venvs/iree/bin"
    at_load = {
        name: used_at_load(folder / name / "program.mlir", compiler / "iree-compile")
        for name in ("torchxla-stablehlo", "torchxla-stablehlo+train")
    }
    assert [name for name in at_load["torchxla-stablehlo"] if "weight" in name]
    # Position and token type ids are buffers that no step changes.
    ids = ("position_ids", "token_type_ids")
    assert all(any(one in name for one in ids) for name in at_load["torchxla-stablehlo+train"])
    assert len(at_load["torchxla-stablehlo+train"]) == len(ids)


def test_a_rewrite_stands_in_the_row_and_can_be_switched_off(ran):
    assert (
        row_of(ran, "bert-tiny", "torchxla-stablehlo")["rewrites"]
        == "attention-of-masked-rows; mhlo.erf to chlo.erf"
    )
    bare = row_of(ran, "bert-tiny", "torchxla-bare")
    assert not bare["rewrites"]
    assert (bare["status"], bare["stage"]) != ("ok", "verify")
    assert "mhlo.erf" in bare["detail"]


@pytest.mark.parametrize(
    ("model", "runtime"),
    [*(("conv", runtime) for runtime in BASELINES), ("bert-tiny", "eager")],
)
@pytest.mark.parametrize("test", ["eval", "train"])
def test_every_baseline_is_verified_in_eval_and_train(ran, model, runtime, test):
    found = record(ran, model, runtime, test)
    assert found["outcome"]["status"] == "ok", found["outcome"]
    assert found["verification"]["code"] == "PASS"
    assert found["latency"]["ms"] > 0
    cold, *steady = found["runs"]
    assert len(steady) == 1
    lazy = runtime in ("xla", "openxla")
    for run in found["runs"]:
        assert run["total_s"] > 0
        assert (run["trace_s"] is not None) == (run["execute_s"] is not None) == lazy
    if lazy:
        assert cold["compile_count"] >= 1
        assert steady[-1]["compile_count"] == 0
        assert steady[-1]["execute_count"] >= steady[-1]["iterations"]
        assert found["versions"]["torch_xla"] == "2.9.0"


@pytest.mark.parametrize("test", ["eval", "train"])
def test_trace_compile_and_execute_account_for_the_first_call(ran, test):
    cold = record(ran, "conv", "xla", test)["runs"][0]
    parts = cold["trace_s"] + cold["compile_s"] + cold["execute_s"]
    assert parts == pytest.approx(cold["total_s"], rel=0.1), cold


def test_profiles_are_collected_when_asked_for(ran):
    eager = record(ran, "conv", "eager", "eval")["run"]["profile"]
    assert eager["profiler"]["total_cpu_time_s"] > 0
    assert eager["operators"]["aten::conv2d"]["num_of_calls"] == 2
    assert record(ran, "conv", "xla", "eval")["run"]["profile"]["operators"] == {}
    counters = record(ran, "conv", "inductor", "eval")["run"]["profile"]["dynamo_counters"]
    assert counters["frames"]["ok"] >= 1


def test_every_dump_is_there_and_says_something(ran):
    dumps = ran.path / "results/dumps/conv"
    cells = ("eager/train", "inductor/eval", "xla/train", "openxla/eval")
    files = [f"{cell}/files.json" for cell in (*cells, "iree/torchxla-stablehlo/llvm-cpu")]
    ran.snakemake("--cores", "2", *(f"results/dumps/conv/{file}" for file in files))
    for cell in cells:
        assert "aten::" in (dumps / cell / "0/profile.txt").read_text()
        assert len(json.loads((dumps / cell / "0/trace.json").read_text())["traceEvents"]) > 10
        assert "# repetition 0" in (dumps / cell / "profile.txt").read_text()
    for cell in ("xla/train", "openxla/eval"):
        assert "ExecuteTime" in (dumps / cell / "0/xla_metrics.txt").read_text()
        assert "stablehlo.convolution" in (dumps / cell / "0/ir.txt").read_text()
    for cell in ("inductor/eval", "openxla/eval"):
        counters = json.loads((dumps / cell / "0/dynamo_counters.json").read_text())
        assert counters["frames"]["ok"] >= 1
    iree = dumps / "iree/torchxla-stablehlo/llvm-cpu/0"
    assert "digraph" in (iree / "dispatch-graph.dot").read_text()
    phases = sorted(path.name for path in (iree / "phases").iterdir())
    assert len(phases) > 8
    assert any("flow" in name for name in phases)
    for listing in dumps.glob("**/files.json"):
        for name, size in json.loads(listing.read_text()).items():
            assert (listing.parent / name).stat().st_size == size > 0, (listing, name)


def test_the_ir_is_dumped_in_each_format_that_is_asked_for_and_what_xla_compiled(ran):
    config = yaml.safe_load((ran.path / "config.yaml").read_text())
    config["baselines"]["xla"]["xla_flags"] = "--xla_dump_hlo_pass_re=.*simplif.*"
    ran.configure(
        dumps={"repeat": 2, "kinds": ["ir", "hlo_modules"], "save_ir": ["text", "hlo"]},
        baselines=config["baselines"],
    )
    wanted = "results/dumps/conv/xla/eval/files.json"
    ran.snakemake("--cores", "2", wanted)
    listed = json.loads((ran.path / wanted).read_text())
    ir = {"text": "aten::convolution", "hlo": "HloModule"}
    modules = [name for name in listed if name.startswith("0/hlo_modules/")]
    assert set(listed) == {f"{n}/ir.{name}.txt" for n in (0, 1) for name in ir} | set(modules)
    folder = (ran.path / wanted).parent
    for name, said in ir.items():
        assert said in (folder / f"0/ir.{name}.txt").read_text()
    for stage in ("before_optimizations", "cpu_after_optimizations"):
        [file] = [name for name in modules if name.endswith(f"{stage}.txt")]
        assert "convolution" in (folder / file).read_text()
    # The baseline's own flags count too.
    assert any("simplif" in name for name in modules)


@pytest.fixture(scope="module")
def named(environments):
    """What xla_locations_in_torch.py prints."""
    return in_environment(environments / "torch-xla/bin/python", "xla_locations_in_torch", fork=False)  # fmt: skip


def test_operations_have_the_names_of_their_nodes_beside_a_buffer_that_is_one_number(named):
    """The counter of a batch norm is lowered with the inputs, before PyTorch/XLA's export asks for names."""
    names, operations, _ = named
    assert names >= operations - 1 >= 3


def test_inputs_that_are_equal_numbers_stay_inputs_of_their_own(named):
    """PyTorch/XLA takes inputs without dimensions for one if they have the same value."""
    _, _, inputs = named
    assert inputs == [0, 1, 2, 3]


def test_an_environment_that_cannot_be_made_fails_its_own_cells_alone(ran):
    before = {cell(row): row["latency_ms"] for row in ran.rows()}
    (ran.path / ".venvs/torch-xla").unlink()
    for file, name in (("torch-xla.yaml", "torch_xla"), ("torch-xla.lock", "torch-xla")):
        pinned = ran.path / "envs" / file
        pinned.write_text(pinned.read_text().replace(f"{name}==2.9.0", f"{name}==2.9.999"))
    only = ("--config", "models=conv")
    ran.snakemake("--cores", "2", "results/latency.csv", *only)
    for row in ran.rows():
        if row["runtime"] in ("xla", "openxla") or (row["frontend"] or "").startswith("torchxla"):
            assert (row["status"], row["stage"]) == ("error", "env"), row
            assert row["reason"] == "installer"
            assert "torch_xla==2.9.999" in row["detail"].replace("-", "_")
            assert row["blocked_by"] == "env torch-xla"
            assert not row["latency_ms"]
        else:
            assert row["status"] == "ok"
            assert row["latency_ms"] == before[cell(row)]
