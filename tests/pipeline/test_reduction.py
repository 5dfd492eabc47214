"""Parts of programs in IREE's parser, and the reduction of a program that really fails to compile."""

from __future__ import annotations

import json

import pytest

from scripts.iree import backends
from tests.checkouts import in_environment, run_stage

FAILING = """
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  %1 = stablehlo.multiply %0, %x : tensor<8xf32>
  %2 = stablehlo.tanh %1 : tensor<8xf32>
  %3 = stablehlo.custom_call @unknown(%2, %0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = stablehlo.add %3, %1 : tensor<8xf32>
  %5 = stablehlo.exponential %4 : tensor<8xf32>
  %6 = stablehlo.subtract %5, %3 : tensor<8xf32>
  return %6 : tensor<8xf32>
}
"""


@pytest.fixture(scope="module")
def parts(environments) -> dict:
    return in_environment(environments / "iree/bin/python", "reduced_in_iree")


def test_a_part_has_its_operations_and_what_is_not_computed_is_an_argument(parts):
    add = next(part for part in parts["stablehlo"] if part["names"] == ["stablehlo.add"])
    assert (
        "func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32>"
        in add["text"]
    )
    assert "util.global" not in add["text"]
    assert add["near"] == ["stablehlo.multiply", "util.global.load"]
    assert parts["at line 6"] == ["stablehlo.add"]


def test_a_part_with_a_weight_has_its_parameter(parts):
    load = parts["stablehlo"][0]
    assert load["names"] == ["util.global.load"]
    assert '#flow.parameter.named<"model"::"w">' in load["text"]


@pytest.mark.parametrize(
    ("dialect", "name", "said"),
    [
        ("stablehlo", "stablehlo.reduce", "stablehlo.constant dense<0.0"),
        ("linalg", "linalg.generic", "tensor.extract %arg1[]"),  # used inside its region
        ("torch", "torch.aten.permute", "torch.prim.ListConstruct %int1, %int0"),
    ],
)
def test_constants_and_what_is_no_tensor_come_with_the_operation_that_uses_them(
    parts, dialect, name, said
):
    part = next(part for part in parts[dialect] if part["names"] == [name])
    assert said in part["text"]


FLAGS = backends.compile_flags("llvm-cpu", None, None, ())


@pytest.fixture
def reduce(environments, tmp_path):
    def run(text: str, flags: list[str]) -> tuple[dict, str]:
        """Reduce a program; return the report and the reduced program."""
        program = tmp_path / "p.mlir"
        program.write_text(text)
        python = environments / "iree/bin/python"
        run_stage(python, "reduce_program", tmp_path, program=program, flags=flags)
        report = json.loads((tmp_path / "reduction.json").read_text())
        return report, (tmp_path / "reduced.mlir").read_text()

    return run


def test_a_program_that_does_not_compile_is_reduced_to_the_operation_at_fault_with_small_shapes(
    reduce,
):
    found, text = reduce(FAILING, FLAGS)
    assert found["operations"] == {"stablehlo.custom_call": 1}
    assert (found["of"], found["complete"]) == (7, True)
    assert found["opt_levels"] == dict.fromkeys(("O0", "O1", "O2", "O3"), "fails in the same way")
    assert "(%arg0: tensor<1xf32>, %arg1: tensor<1xf32>) -> tensor<1xf32>" in text


def test_a_program_with_wrong_values_is_reduced_to_the_operation_that_computes_them(parts):
    found = parts["mismatch"]
    assert found["report"]["operations"] == {"stablehlo.tanh": 1}
    assert found["report"]["of"] == 6
    assert "stablehlo.tanh" in found["text"]
    shown = ("input_0.npy", "expected_0.npy", "computed_0.npy")
    assert found["shapes"] == {name: [4, 1] for name in shown}
    assert found["report"]["opt_levels"] == {"O0": "right", "O1": "right", "O2": "wrong", "O3": "wrong"}  # fmt: skip


def test_a_program_with_the_same_values_is_not_reduced(parts):
    assert "no difference was found between both sets of flags" in parts["no mismatch"]


PLANTED = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %v: tensor<16x16xf32>) -> tensor<4x16xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = stablehlo.compare GT, %x, %zeros : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %2 = stablehlo.convert %1 : (tensor<4x8xi1>) -> tensor<4x8xf32>
  %3 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %4 = stablehlo.add %0, %3 : tensor<4x16xf32>
  %5 = stablehlo.tanh %4 : tensor<4x16xf32>
  %6 = stablehlo.dot_general %5, %v, contracting_dims = [1] x [0] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  return %6 : tensor<4x16xf32>
}
"""
"""IREE 3.13 gives %3 the wrong sign from O2 on."""


@pytest.mark.parametrize(("level", "status"), [("O1", "right"), ("O3", "wrong")])
def test_the_dispatch_that_is_compiled_wrongly_is_the_one_whose_test_fails(
    environments, tmp_path, level, status
):
    program, out = tmp_path / "p.mlir", tmp_path / "out"
    program.write_text(PLANTED)
    out.mkdir()
    flags, right = (backends.compile_flags("llvm-cpu", None, each, ()) for each in (level, "O0"))
    modules = tmp_path / "modules"
    modules.mkdir()
    files = {"program": program, "tests": out, "modules": modules}
    python = environments / "iree/bin/python"
    run_stage(python, "run_dispatches", tmp_path, **files, flags=flags, right_flags=right)
    results = json.loads((tmp_path / "results.json").read_text())
    tested = json.loads((out / "dispatches.json").read_text())
    tested = [one | results[one["functions"][0]] for one in tested]
    # Those that are right can be timed.
    assert {path.stem for path in modules.iterdir()} == {name for name, said in results.items() if said["status"] == "right"}  # fmt: skip
    converting = [one for one in tested if "stablehlo.convert" in one["operations"]]
    assert [one["status"] for one in converting] == [status]
    others = [one["status"] for one in tested if one not in converting]
    assert others == ["right"] * (len(tested) - 1)
    assert len(tested) > 1
    # Each folder has its test: a program, its inputs, and right outputs.
    for one in tested:
        folder = out / one["functions"][0]
        assert {"program.mlir", "input_0.npy", "expected_0.npy"} <= {p.name for p in folder.iterdir()}  # fmt: skip
