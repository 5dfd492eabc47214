"""A program for all sizes of two inputs that share a dimension: exported and compiled once, right at each size, and not called
with sizes that disagree."""

from __future__ import annotations

import json

import pytest

from tests.checkouts import (
    EAGER,
    ON_CPU,
    Checkout,
    in_environment,
    is_compared,
    keep_models,
    shipped,
)

MODEL = '''"""Two inputs that share the first dimension; the second one has twice as many columns as a third option says."""
import torch


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = torch.nn.Linear(16, 32), torch.nn.Linear(1, 32)

    def forward(self, x, *, y):
        return self.left(x).relu() + self.right(y.sum(1, keepdim=True))


def get_model():
    return Two()


def get_dummy_input(rows=1, columns=3):
    return (torch.randn(rows, 16),), {"y": torch.randn(rows, 2 * columns)}
'''
SIZES = {
    "rows": {"values": [2, 7], "max": 64},
    "columns": {"values": [3], "multiple_of": 3, "max": 30, "min": 3},
}
POOL = """\
import torch


class Pool(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.adaptive_avg_pool2d(x, (4, 3)), torch.nn.functional.adaptive_avg_pool1d(x[0], 4)


def get_model():
    return Pool()


def get_dummy_input(rows=8):
    return torch.randn(1, 2, 9, rows)
"""
DYNAMIC = "torchmlir-torch+dynamic"
OPEN = """\
func.func @main(%left: tensor<?x8xf32>, %right: tensor<?x8xf32>) -> tensor<?x4xf32> {
  %weight = util.global.load @weight : tensor<8x4xf32>
  %sum = arith.addf %left, %right : tensor<?x8xf32>
  %axis = arith.constant 0 : index
  %rows = tensor.dim %sum, %axis : tensor<?x8xf32>
  %empty = tensor.empty(%rows) : tensor<?x4xf32>
  %zero = arith.constant 0.0 : f32
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x4xf32>) -> tensor<?x4xf32>
  %product = linalg.matmul ins(%sum, %weight : tensor<?x8xf32>, tensor<8x4xf32>) outs(%filled : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %product : tensor<?x4xf32>
}
util.global private @weight = #flow.parameter.named<"model"::"weight"> : tensor<8x4xf32>
"""
"""A program of MLIR with two inputs that have the same number of rows."""
ROWS = "arg0.0=arg1.0"


@pytest.fixture(scope="module")
def ran(make_checkout) -> Checkout:
    made = make_checkout(
        "dynamic",
        models={
            "two": {"dynamic": SIZES},
            "open": {"file": "open.mlir", "dynamic": {ROWS: {"values": [2, 7], "max": 64}}},
            "pool": {"dynamic": {"rows": {"values": [9, 12], "max": 64}}},
            "unknown": {"file": "open.mlir", "dims": {"arg0.1": 8}},
        },
        targets=ON_CPU,
        baselines=EAGER,
        frontends=shipped("frontends", "torchmlir-torch", "torchxla-stablehlo", "mlir"),
    )
    (made.path / "models/two.py").write_text(MODEL)
    (made.path / "models/pool.py").write_text(POOL)
    (made.path / "open.mlir").write_text(OPEN)
    keep_models(made, "two", "pool")
    made.snakemake("--cores", "2", "results/latency.csv")
    return made


def test_one_program_is_right_at_every_size(ran):
    names = ["two", "two~2-3", "two~7-3"]
    for name in names:
        row = ran.row(name, DYNAMIC, "llvm-cpu")
        assert row["verification_code"] == "PASS", row["detail"]
        static = ran.row(name, "torchmlir-torch", "llvm-cpu")
        assert is_compared(row, "dynamic_cost")
        assert not static["dynamic_cost"]
    for stage, where in (("export", ""), ("compile", "/llvm-cpu")):
        made = [path.name for path in (ran.path / f"results/{stage}").glob("two*")]
        assert sorted(made) == names
        shared = [
            name
            for name in names
            if (ran.path / f"results/{stage}/{name}/{DYNAMIC}{where}").is_dir()
        ]
        assert shared == ["two"], "the sizes share what was exported and compiled for the model"


def test_an_adaptive_pool_has_windows_of_each_size(ran):
    for name in ("pool", "pool~9", "pool~12"):
        row = ran.row(name, DYNAMIC, "llvm-cpu")
        assert row["verification_code"] == "PASS", row["detail"]
        assert row["rewrites"] == "adaptive-average-by-masks"
        assert not ran.row(name, "torchmlir-torch", "llvm-cpu")["rewrites"]


def test_the_dimensions_are_found_by_two_sizes_of_each_option(ran):
    report = json.loads((ran.path / f"results/export/two/{DYNAMIC}/report.json").read_text())
    found = [
        (one["position"], one["axis"], one["option"], one["factor"], one["multiple_of"])
        for one in report["dimensions"]
    ]
    assert found == [(0, 0, "rows", 1, 1), (1, 0, "rows", 1, 1), (1, 1, "columns", 2, 3)]
    program = (ran.path / f"results/export/two/{DYNAMIC}/program.mlir").read_text()
    assert "func.func @main(%arg0: tensor<?x16xf32>, %arg1: tensor<?x?xf32>) -> tensor<?x32xf32>" in program  # fmt: skip


def test_a_program_of_mlir_is_right_at_every_size_and_compiled_for_each_beside_it(ran):
    for name in ("open", "open~2", "open~7"):
        for frontend in ("mlir", "mlir+dynamic"):
            row = ran.row(name, frontend, "llvm-cpu")
            assert row["verification_code"] == "PASS", row["detail"]
            assert row["golden_from"] == "iree-O0 (not xla: it has dynamic dimensions)"
    assert is_compared(ran.row("open~7", "mlir+dynamic", "llvm-cpu"), "dynamic_cost")
    report = json.loads((ran.path / "results/export/open/mlir+dynamic/report.json").read_text())
    places = [(one["position"], one["axis"], one["option"]) for one in report["dimensions"]]
    assert places == [(0, 0, ROWS), (1, 0, ROWS)]
    text = (ran.path / "results/export/open~7/mlir/program.mlir").read_text()
    assert "@main(%arg0: tensor<7x8xf32>, %arg1: tensor<7x8xf32>)" in text


def test_a_dimension_that_is_not_open_is_named_with_those_that_are(ran):
    row = ran.row("unknown", "mlir", "llvm-cpu")
    assert row["status"] != "ok"
    assert row["detail"].endswith(
        "dims: arg0.1 is no dynamic dimension of @main; it has arg0.0, arg1.0"
    )


def test_sizes_that_disagree_are_not_called(ran):
    python = ran.path / ".venvs/iree/bin/python"
    case = {
        "vmfb": str(ran.path / f"results/compile/two/{DYNAMIC}/llvm-cpu/module.vmfb"),
        "weights": str(ran.path / "results/reference/two/weights.irpa"),
        "report": str(ran.path / f"results/export/two/{DYNAMIC}/report.json"),
        "shapes": [[(7, 16), (7, 6)], [(7, 16), (8, 6)], [(65, 16), (65, 6)], [(7, 16), (7, 8)]],
    }
    right, disagree, large, multiple = in_environment(python, "dynamic_in_iree", case=case)
    assert right["checked"] == [7, 32]
    # IREE itself computes something: what is checked is not checked twice.
    assert disagree["unchecked"] == [7, 32]
    assert disagree["checked"].startswith("dimension 0 of input [1]['y']: found size 8, expected 7, because dimension 0 of input [0][0] has size 7")  # fmt: skip
    assert large["checked"].startswith("dimension 0 of input [0][0]: found size 65; expected rows of 1 to 64")  # fmt: skip
    assert multiple["checked"] == "dimension 1 of input [1]['y']: found size 8, which is columns 4; expected columns of 3 to 30, multiples of 3"  # fmt: skip


def test_what_iree_does_not_compile_for_all_sizes_says_so_and_is_right_for_each(ran):
    """PyTorch/XLA broadcasts the bias to a size that is open, which IREE 3.13 does not compile from StableHLO."""
    for name in ("two", "two~2-3", "two~7-3"):
        row = ran.row(name, "torchxla-stablehlo+dynamic", "llvm-cpu")
        assert (row["status"], row["stage"], row["reason"]) == (
            "unsupported",
            "compile",
            "legalization",
        )
        assert "stablehlo.dynamic_broadcast_in_dim" in row["detail"]
        alone = ran.row(name, "torchxla-stablehlo", "llvm-cpu")
        assert alone["verification_code"] == "PASS", alone["detail"]
