"""The stages that a run of rows has only where it is asked: a training step, dumps, a trace, and profiles."""

import pytest

from tests.checkouts import EAGER, ON_CPU, in_environment, keep_models

pytestmark = pytest.mark.main


@pytest.fixture(scope="module")
def ran(make_checkout):
    checkout = make_checkout("further", models={}, targets=ON_CPU, baselines=EAGER)
    keep_models(checkout, "conv")
    wanted = ("results/latency.csv", "results/operators/traces/conv.txt", "dumps")
    selected = ("frontends=torchmlir-torch", "tests=eval,train")
    checkout.snakemake("--cores", "2", *wanted, "--config", *selected)
    return checkout


def test_a_training_step_is_a_row_beside_the_forward_pass(ran):
    rows = {(row["test"], row["runtime"]): row["status"] for row in ran.rows()}
    assert rows == {(t, r): "ok" for t in ("eval", "train") for r in ("iree", "eager")}


def test_a_trace_has_the_operators_of_the_model(ran):
    assert "aten.convolution" in (ran.path / "results/operators/traces/conv.txt").read_text()


def test_dumps_have_the_ir_of_the_module(ran):
    assert [*ran.path.glob("results/dumps/conv/iree/torchmlir-torch/llvm-cpu/**/*.mlir")]


def test_kernels_of_inductor_have_their_module_after_a_graph_break(environments):
    python = environments / "torch-mlir/bin/python"
    modules = in_environment(python, "inductor_profile_in_torch")
    assert sorted(modules) == ["1", "1.after", "1.before"]
