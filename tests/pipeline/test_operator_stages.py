"""Operator problems through the stages of the workflow, and what a further run repeats."""

from __future__ import annotations

import csv

import pytest

from scripts.core import requests
from scripts.supervise import outcome
from scripts.supervise.outcome import ProblemEnd
from tests.checkouts import EAGER, ON_CPU, is_compared

pytestmark = pytest.mark.main

TRACE = """\
Operator: aten.addmm.default
cnt: 3, ((T([16], f32), T([8, 32], f32), T([32, 16], f32, stride=(1, 32))), {})
Operator: aten.add_.Tensor
cnt: 2, ((T([4, 6], f32), T([4, 6], f32, stride=(1, 4))), {'alpha': 2, })
Operator: aten._to_copy.default
cnt: 1, ((T([4, 5], f16),), {'dtype': f32, 'layout': torch.strided, 'device': device(type='cuda', index=0)})
Operator: aten.bernoulli_.float
cnt: 1, ((T([4], f16), 0.5), {})
"""
RUN = ["aten.addmm.default", "aten.add_.Tensor", "aten._to_copy.default"]
STAGES = {
    "operator_reference": "0",
    "operator_export": "0/torchmlir-stablehlo",
    "operator_compile": "0/torchmlir-stablehlo/llvm-cpu",
    "operator_verify": "0/torchmlir-stablehlo/llvm-cpu",
    "operator_baseline": "0/eager",
    "operator_time": "0/cpu",
}


@pytest.fixture(scope="module")
def ran(make_checkout):
    checkout = make_checkout(
        "operators",
        targets=ON_CPU | {"cuda": {"backend": "cuda"}},
        baselines=EAGER,
        operators={
            "traces": ["mine.txt"],
            "batches": 1,
            "frontends": ["torchmlir-stablehlo"],
            "targets": ["llvm-cpu", "cuda"],
            "compile_only": ["cuda"],
            "measure": {"budget_s": 0.1, "generations": 3},
        },
    )
    (checkout.path / "mine.txt").write_text(TRACE)
    checkout.wanted = [f"results/{s}/{of}/status.json" for s, of in STAGES.items()]
    checkout.wanted.append("results/operator_compile/0/torchmlir-stablehlo/cuda/status.json")
    checkout.wanted.append("results/operators.csv")
    checkout.snakemake("--cores", "8", *checkout.wanted)
    return checkout


def lines(checkout, stage: str, of: str = "") -> dict[str, ProblemEnd]:
    found = outcome.read_problem_ends(
        checkout.path / f"results/{stage}/{of or STAGES[stage]}/outcomes.jsonl"
    )
    return {name.rpartition("-")[0]: line for name, line in found.items()}


@pytest.mark.parametrize("stage", STAGES)
def test_every_problem_ends_in_every_stage(ran, stage):
    found = lines(ran, stage)
    statuses = {op: (line.outcome.status, line.outcome.detail) for op, line in found.items()}
    assert statuses == dict.fromkeys(RUN, ("ok", "")) | {
        "aten.bernoulli_.float": (
            "unsupported" if stage == "operator_reference" else "skipped",
            "random: aten.bernoulli_.float draws random numbers",
        )
    }


@pytest.mark.parametrize("stage", ["operator_verify", "operator_baseline"])
def test_problems_are_verified_by_both_criteria(ran, stage):
    for op in RUN:
        result = lines(ran, stage)[op].result
        assert result["verification"]["code"] == "PASS"
        assert result["backendbench_correct"]


def test_the_rows_of_a_problem_are_timed_together(ran):
    rows = {STAGES["operator_verify"], STAGES["operator_baseline"]}
    for op in RUN:
        result = lines(ran, "operator_time")[op].result
        assert result["timing"]["members"].keys() == result["empty_ms"].keys() == rows
        for member in result["timing"]["members"].values():
            assert len(member["values_ms"]) == 3
            assert min(member["values_ms"]) > 0
        assert min(result["empty_ms"].values()) > 0


def test_a_reference_has_what_is_known_of_the_problem(ran):
    result = lines(ran, "operator_reference")["aten.addmm.default"].result
    assert result["flops"] == 2 * 8 * 32 * 16
    assert result["bytes"] == 4 * (16 + 8 * 32 + 32 * 16 + 8 * 16)
    assert result["outputs"] == [{"shape": [8, 16], "dtype": "f32"}]
    assert result["weak"] == result["marks"] == []


def test_programs_are_compiled_also_for_a_target_that_is_not_run(ran):
    for of in ("0/torchmlir-stablehlo/llvm-cpu", "0/torchmlir-stablehlo/cuda"):
        found = lines(ran, "operator_compile", of)
        modules = {found[op].result["module"] for op in RUN}
        assert len(modules) == len(RUN)
        assert all((ran.path / module).stat().st_size for module in modules)
    assert not (ran.path / "results/operator_verify/0/torchmlir-stablehlo/cuda").exists()


def test_the_rows_have_the_outcomes_of_the_stages(ran):
    rows = list(csv.DictReader((ran.path / "results/operators.csv").open()))
    ended = {(row["op_name"], row["target"] or row["runtime"]): row for row in rows}
    assert len(ended) == len(rows) == 4 * 3
    for op in RUN:
        cpu, cuda, eager = (ended[op, of] for of in ("llvm-cpu", "cuda", "eager"))
        assert [row["status"] for row in (cpu, cuda, eager)] == ["ok"] * 3
        assert is_compared(cpu)
        assert (cuda["latency_ms"], cuda["stage"]) == ("", "operator_compile")
        assert (eager["speedup_vs_eager"], cpu["fault"]) == ("1", "")
        assert float(cpu["gb_per_s"]) == pytest.approx(
            int(cpu["bytes"]) / float(cpu["latency_ms"]) / 1e6, rel=1e-5
        )
    assert {row["fault"] for (op, _), row in ended.items() if op not in RUN} == {"problem"}
    page = (ran.path / "results/operators.md").read_text()
    assert "4 problems of 4 operators; 6 of 8 rows of lowering paths pass." in page


def test_a_further_run_handles_only_what_is_new_or_wanted(ran):
    asked = ["--cores", "8", *ran.wanted]
    assert "Nothing to be done" in ran.snakemake("-n", *asked).stdout
    same = ("operator_reference", "operator_time")
    before = [{op: line.seconds for op, line in lines(ran, stage).items()} for stage in same]
    more = "Operator: aten.relu.default\ncnt: 1, ((T([7], f32),), {})\n"
    (ran.path / "mine.txt").write_text(TRACE + more)
    ran.snakemake(*asked, "--config", "retry=unsupported")
    for stage in STAGES:
        found = lines(ran, stage)
        assert found["aten.relu.default"].outcome.status == "ok", stage
        folder = ran.path / f"results/{stage}/{STAGES[stage]}/worker"
        if folder.exists():
            ops = {task["payload"]["op"] for task in requests.read(folder).fields["tasks"]}
            retried = {"aten.bernoulli_.float"} if stage == "operator_reference" else set()
            assert ops == {"aten.relu.default"} | retried
    for stage, seconds in zip(same, before, strict=True):
        after = lines(ran, stage)
        assert {op: after[op].seconds for op in RUN} == {op: seconds[op] for op in RUN}
