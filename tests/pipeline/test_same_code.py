"""What `vmfbench compare --why` says of programs that the real compiler has compiled."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.config import stages
from scripts.config.cell import Kind
from scripts.results.results_file import cell_of
from scripts.tools.compare import code_changes, pairs, remeasuring
from scripts.tools.compare.code_changes import CHANGED, CodeChange
from scripts.tools.compare.remeasuring import NotMeasured
from tests.checkouts import run_stage
from tests.report_records import records

PROGRAM = """
func.func @main(%x: tensor<64x128xf32>, %w: tensor<128x32xf32>)
    -> (tensor<64x32xf32>, tensor<64xf32>, tensor<64x128xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
  %1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x128xf32>, tensor<f32>) -> tensor<64xf32>
  %2 = stablehlo.tanh %x : tensor<64x128xf32>
  return %0, %1, %2 : tensor<64x32xf32>, tensor<64xf32>, tensor<64x128xf32>
}
"""


@pytest.fixture
def change(environments, tmp_path):
    row = next(row for row in records() if str(cell_of(row)) == "bert/torchmlir-torch/llvm-cpu")

    def compiled(folder: Path, flags: Sequence[str]) -> Path:
        """The folder of a run that has the code of PROGRAM with these flags."""
        cell = cell_of(row).to(Kind.IREE_DUMP)
        out = folder / stages.STAGES["read_code"].path(cell, "code.json")
        out.parent.mkdir(parents=True)
        program = folder / "program.mlir"
        program.write_text(PROGRAM)
        run_stage(
            environments / "iree/bin/python",
            "read_code",
            out.parent,
            backend="llvm-cpu",
            opt_level="O3",
            flags=flags,
            program=program,
        )
        return folder

    def between(before: Sequence[str], after: Sequence[str]) -> CodeChange:
        folders = compiled(tmp_path / "before", before), compiled(tmp_path / "after", after)
        return code_changes.code_change(pairs.Pair(str(cell_of(row)), row, row), folders)

    return between


def test_a_program_that_is_compiled_twice_has_the_same_code(change):
    code = change([], [])
    assert code.is_same
    assert code.functions == 3


def test_a_flag_that_changes_the_code_of_one_dispatch_lists_exactly_this(change):
    code = change([], ["--iree-llvmcpu-reassociate-fp-reductions=false"])
    assert [(each.kind, each.name) for each in code.changed] == [
        (CHANGED, "main_dispatch_1_reduction_64x128_f32")
    ]
    assert (code.host, code.functions) == (False, 3)


def test_a_recorded_run_is_repeated_with_the_executable_that_is_put_in(
    environments, tmp_path, monkeypatch
):
    monkeypatch.setattr(remeasuring, "ROUNDS", 2)
    environment, recorded = environments / "iree", tmp_path / "run.ireereplay"
    program, module = tmp_path / "program.mlir", tmp_path / "program.vmfb"
    program.write_text(PROGRAM)
    compiler = (environment / "bin/iree-compile", program, "-o", module, *remeasuring.APART)
    target = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
    subprocess.run([*compiler, *target], check=True)
    inputs = ("--input=64x128xf32=1", "--input=128x32xf32=1")
    call = (f"--module={module}", "--function=main", "--device=local-task", *inputs)
    runner = (environment / "bin/iree-run-module", *call, f"--device_replay_output={recorded}")
    subprocess.run(runner, check=True)
    executables = remeasuring._executables(recorded, environment)
    assert sorted(executables) == [
        "main_dispatch_0_matmul_64x32x128_f32",
        "main_dispatch_1_reduction_64x128_f32",
        "main_dispatch_2_elementwise_8192_f32",
    ]
    chosen = executables["main_dispatch_0_matmul_64x32x128_f32"]
    own, damaged = tmp_path / "own.so", tmp_path / "damaged.so"
    own.write_bytes(chosen.code)
    damaged.write_bytes(chosen.code[: len(chosen.code) // 2])
    replayed = remeasuring._replayed(
        recorded, environment, call, {"": {}, "own": {chosen.number: own}}
    )
    assert {name: len(values) for name, values in replayed.items()} == {"": 2, "own": 2}
    with pytest.raises(NotMeasured, match="iree-benchmark-replay"):
        remeasuring._replayed(recorded, environment, call, {"damaged": {chosen.number: damaged}})
