"""benchmarks/failing.yaml: the failing cells stay the same when config.yaml changes."""

from collections import Counter
from pathlib import Path

import pytest

from scripts.matrix import expansion, settings
from scripts.matrix.cell import Kind
from scripts.matrix.rows import Matrix

ROOT = Path(__file__).parents[2]
OWN = ROOT / "config.yaml"
FAILING = ROOT / "benchmarks" / "failing.yaml"
SIXTEEN = {
    "bert", "conv", "deepseek", "gat", "gatv2", "gcn", "gpt2-prefill", "gpt2-decode", "graphsage",
    "llama-qlora", "llama-spinquant", "llama-prefill", "llama-decode", "mobilenet", "resnet", "vit",
}  # fmt: skip
LEVELS = {"llvm-cpu": "O3", "llvm-cpu-bare": "O3", "vulkan": "O2", "cuda": "O2", "rocm": "O2"}


@pytest.fixture(params=[[FAILING], [OWN, FAILING]], ids=["alone", "over config.yaml"])
def matrix(request) -> Matrix:
    declared, selections = settings.load({}, request.param)
    return expansion.expand(declared, selections, ROOT)


def test_its_cells_are_those_of_commit_5145bc5_and_googlenet(matrix):
    rows = list(matrix.rows())
    assert set(matrix.models) == SIXTEEN | {"torchvision-googlenet"}
    assert Counter(row.target for row in rows if row.kind is Kind.IREE) == {
        "llvm-cpu": 51, "llvm-cpu-bare": 1, "cuda": 16, "rocm": 15, "vulkan": 2,
    }  # fmt: skip
    assert Counter(row.baseline for row in rows if row.kind is Kind.BASELINE) == {
        "eager": 17, "inductor": 17, "eager-cuda": 17, "inductor-cuda": 17,
    }  # fmt: skip
    cells = set(map(str, rows))
    assert {f"{name}/torchmlir-stablehlo/cuda" for name in SIXTEEN} <= cells
    assert {f"{name}/torchmlir-stablehlo/rocm" for name in SIXTEEN - {"llama-qlora"}} <= cells


def test_every_cell_is_compiled_without_the_flags_and_levels_that_config_yaml_has_added(matrix):
    for _, _, target in matrix.cells():
        assert (target.opt_level, target.flags) == (LEVELS[target.name], ())


def test_what_fails_is_expected_cell_by_cell(matrix):
    cells = set(map(str, matrix.rows()))
    wrong = {cell: of for cell, of in matrix.expect.items() if isinstance(of, dict)}
    assert set(wrong) <= cells
    assert Counter(of["stage"] for of in wrong.values()) == {"compile": 15, "verify": 1}
    assert Counter(cell.rpartition("/")[2] for cell in wrong) == {
        "cuda": 9, "rocm": 6, "llvm-cpu-bare": 1,
    }  # fmt: skip
    # The last matching pattern counts, so these come after the globs.
    assert list(matrix.expect)[-len(wrong) :] == list(wrong)


def test_what_fails_has_remedies_only_if_a_run_asks_for_them(matrix):
    assert all(not target.remedies for target in matrix.targets.values())
    declared, selections = settings.load({"remedies": True}, [OWN, FAILING])
    found = expansion.expand(declared, selections, ROOT)
    for model, frontend, target in found.cells():
        if target.name in ("cuda", "rocm"):
            assert found.attempts(frontend.name, target), model.name
