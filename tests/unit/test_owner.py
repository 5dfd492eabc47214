"""The likely owner of a wrong result, by what other executors compute from the same program."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from scripts.config.cell import Cell, Kind
from scripts.results import record
from scripts.results.results_file import Record
from scripts.tools.reproduce import case as cases

RIGHT, WRONG, NONE = ({"code": code, "detail": detail} for code, detail in (("PASS", ""), ("FAIL", "2 of 4"), ("", "torch.aten.mm is no operation of StableHLO")))  # fmt: skip


@pytest.mark.parametrize(
    ("exporter", "xla", "plain", "same", "others", "name", "evidence"),
    [
        ("torch_xla", RIGHT, RIGHT, "PASS", {}, "IREE", "XLA computes the golden result from the same StableHLO, so IREE's compiler is wrong, in what it does beyond O0."),
        ("torch_mlir", RIGHT, WRONG, "FAIL", {"torchxla-stablehlo": False}, "IREE", "IREE's compiler is wrong, at O0 too. By other paths the model is wrong: torchxla-stablehlo."),
        ("torch_xla", WRONG, WRONG, "PASS", {"torchmlir-torch": True}, "PyTorch/XLA", "IREE at O0 and XLA give the same wrong result from the same program, so the program is wrong: PyTorch/XLA's lowering. By other paths the model is right: torchmlir-torch."),
        ("torch_mlir", WRONG, NONE, None, {}, "torch-mlir", "XLA computes a wrong result from the same StableHLO too, so the program is wrong: torch-mlir's lowering."),
        ("as_it_is", WRONG, WRONG, "PASS", {}, "IREE", "so the program of the file, or the golden results that were given with it, are wrong."),
        ("torch_mlir", NONE, RIGHT, None, {}, "IREE", "so an optimization of its compiler is wrong. XLA was not compared: torch.aten.mm is no operation of StableHLO."),
        ("torch_mlir", NONE, WRONG, None, {"torchxla-stablehlo": True}, "torch-mlir", "the model is right by other paths, so torch-mlir's lowering is likely to be wrong."),
        ("onnx_importer", NONE, WRONG, None, {}, "IREE", "whether the program or IREE's compiler is wrong is not known."),
    ],
)  # fmt: skip
def test_the_owner_is_who_is_wrong_where_others_are_right(
    exporter, xla, plain, same, others, name, evidence
):
    likely = cases.likely(exporter, {"xla": xla, "O0": plain, "same": same}, others)
    assert likely.name == name
    assert evidence in likely.evidence
    assert likely.is_program_right == (RIGHT in (xla, plain))
    assert ("iree-org" in likely.tracker) == (name == "IREE")


def test_what_was_not_compared_says_so():
    assert "The program ran on no other executor" in cases.likely("torch_mlir", {}, {}).evidence


def test_other_paths_are_those_whose_targets_agree(results):
    results.write()
    first = next(data for data in record.records(results.matrix) if Record(Path(), 1, data).is_iree)

    def row(frontend: str, target: str, **ended: str) -> Record:
        data = copy.deepcopy(first)
        data["experiment"] |= {"frontend": frontend, "target": target}
        data["outcome"] |= {"status": "error", "reason": "", **ended}
        return Record(Path(), 1, data)

    cell = Cell.parse(f"{first['model']['name']}/mlir/llvm-cpu", Kind.IREE)
    wrong, right = {"reason": "wrong-result"}, {"status": "ok"}
    rows = [
        *(row("mlir", target, **right) for target in ("llvm-cpu", "vulkan")),
        *(row("right", target, **right) for target in ("llvm-cpu", "vulkan")),
        *(row("wrong", target, **wrong) for target in ("llvm-cpu", "vulkan")),
        row("both", "llvm-cpu", **right),
        row("both", "vulkan", **wrong),
        row("failed", "llvm-cpu", reason="legalization"),
    ]
    assert cases._others(rows, cell) == {"right": True, "wrong": False}
