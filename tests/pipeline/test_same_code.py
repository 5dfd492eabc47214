"""What `vmfbench compare --why` and `vmfbench why --dispatch` say of programs that the real compiler has compiled."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.config import stages
from scripts.config.cell import Kind
from scripts.core import atomic
from scripts.results.page_sections import as_text
from scripts.results.results_file import cell_of
from scripts.tools.compare import code_changes, pairs, remeasuring
from scripts.tools.compare.code_changes import CHANGED, CodeChange
from scripts.tools.compare.remeasuring import NotMeasured
from scripts.tools.profile.dispatch_view import Compiled, chosen, difference, inner_loop, passes
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


TARGET = {"backend": "llvm-cpu", "arch": "x86-64-v4", "opt_level": "O3"}
PRODUCT, SUM = "main_dispatch_0_matmul_like_64x32x128_f32", "main_dispatch_1_reduction_64x128_f32"


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
        python = environments / "iree/bin/python"
        run_stage(python, "read_code", out.parent, **TARGET, flags=flags, program=program)
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
    assert [(each.kind, each.name) for each in code.changed] == [(CHANGED, SUM)]
    assert (code.host, code.functions) == (False, 3)


def test_the_code_has_what_was_chosen_its_work_and_its_inner_loop(change, tmp_path):
    change([], [])
    [file] = (tmp_path / "before").rglob("code.json")
    code = {each["name"]: each for each in atomic.read_json(file)["functions"]}
    product = code[PRODUCT]
    assert chosen(product).startswith("DoubleTilingExpert, tiles 8×32×0, vectors 8×16×16")
    assert (product["data_tiled"], product["microkernels"]) == (False, [])
    assert product["flop"] == 2 * 64 * 32 * 128
    assert product["bytes"] == 4 * (64 * 128 + 128 * 32 + 64 * 32)
    assert inner_loop(product) == "512-bit, 100% FMA"
    assert product["loop"]["depth"] == 2
    assert code[SUM]["flop"] == 64 * 128
    assert inner_loop(code[SUM]) == "512-bit, 0% FMA"


def test_a_dispatch_alone_has_the_code_of_the_program_and_its_ir_differs_by_the_pass_of_a_flag(
    environments, tmp_path
):
    python, program = environments / "iree/bin/python", tmp_path / "program.mlir"
    program.write_text(PROGRAM)
    asked = TARGET | {"program": program}
    run_stage(python, "read_code", tmp_path, **asked, flags=[])
    code = {each["name"]: each for each in atomic.read_json(tmp_path / "code.json")["functions"]}
    sides = []
    for name, flag in (("own", "true"), ("scalar", "false")):
        out = tmp_path / name
        out.mkdir()
        flags = [f"--iree-llvmcpu-reassociate-fp-reductions={flag}"]
        # In another program, the dispatch may have another number.
        function = SUM.replace("dispatch_1", "dispatch_7")
        run_stage(python, "read_dispatch", out, **asked, flags=flags, function=function)
        said = atomic.read_json(out / "dispatch.json")
        sides.append(Compiled(name, out, said["code"], said["passes"]))
    assert sides[0].code == code[SUM]
    assert sides[1].code["name"] == SUM
    files = as_text([passes(sides[0])])
    assert re.search(r"passes/\d+-iree-llvmcpu-select-lowering-strategy.mlir", files)
    assert "op-pipeline-adaptor" not in files
    assert f"@{SUM}" in (tmp_path / "own/executable.mlir").read_text()
    assert (tmp_path / "own/assembly.txt").read_text().startswith("SELF:\npushq %rbp\n")
    said = as_text(difference(*sides), width=1000)
    assert "First pass after which the IR differs: iree-llvmcpu-split-reduction" in said
    assert "\n--- own\n+++ scalar\n" in said
    assert "-vaddps" in (tmp_path / "own/assembly.diff").read_text()
    assert "The IR after each pass is the same." in as_text(difference(sides[0], sides[0]))


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
