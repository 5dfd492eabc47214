"""export_records --format backendbench: the tests and scores of a run of BackendBench, per lowering path.

The fields are those of CorrectnessTestResult and PerformanceTestResult in its eval.py.
"""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from scripts.cli import export as export_records
from scripts.results import row_set
from scripts.tools.operators.report import columns, problem_record
from tests.operator_results import ADD, FACTS, MM, MM_16, OPERATORS, Tree
from tests.unit.conftest import MATRIX

CORRECTNESS = ["op_name", "args", "is_correct", "error_msg", "error_type", "traceback", "max_abs_error", "max_rel_error", "test_type"]  # fmt: skip
PERFORMANCE = ["op_name", "args", "speedup", "benchmark_time_ms", "reference_time_ms", "error_msg", "successfully_ran", "test_type"]  # fmt: skip


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A product that is wrong and one that does not compile, by torch."""
    monkeypatch.chdir(tmp_path)
    return Tree(
        dataclasses.replace(MATRIX, parts={"operators": OPERATORS}),
        endings={
            f"operator_verify 0/torch/llvm-cpu: {MM.name}": ("error", "wrong-result", "FAIL: all"),
            f"operator_compile 0/torch/llvm-cpu: {MM_16.name}": ("error", "bufferization", "failed to bufferize op"),
        },
    )  # fmt: skip


def export(tree: Tree, *arguments: str) -> dict[str, str]:
    """Write the records, export them as the command line does, and return the files by name."""
    tree.write()
    found = problem_record.of_batch(Path(), tree.matrix, "0", tree.problems)
    columns.JSONL.write_text("".join(row_set.lines(found)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["export", "--format", "backendbench", *arguments])
        export_records.main()
    folder = Path("results/operators/backendbench")
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.*")}


def test_each_path_that_ran_and_the_best_have_a_folder(tree, capsys):
    found = export(tree)
    folders = {"torch-llvm-cpu", "xla-llvm-cpu", "best-llvm-cpu", "eager"}
    files = ["OVERALL_SUMMARY.md", "full_results.json"]
    assert sorted(found) == sorted(f"{folder}/{file}" for folder in folders for file in files)
    assert "note: left out, nothing was run: torch/cuda, xla/cuda" in capsys.readouterr().err


def test_a_problem_is_a_correctness_test_and_a_performance_test_with_their_fields(tree):
    tests = json.loads(export(tree)["torch-llvm-cpu/full_results.json"])
    assert [(test["op_name"], test["test_type"]) for test in tests] == [
        (op, kind) for op in ("add.Tensor", "mm.default", "mm.default") for kind in ("correctness", "performance")
    ]  # fmt: skip
    assert all(list(t) == (CORRECTNESS if t["test_type"] == "correctness" else PERFORMANCE) for t in tests)  # fmt: skip
    right, timed = tests[:2]
    assert right == dict(zip(CORRECTNESS, ["add.Tensor", ADD.args, True, "", "", "", 0.5, 0.1, "correctness"], strict=True))  # fmt: skip
    assert timed == dict(zip(PERFORMANCE, ["add.Tensor", ADD.args, pytest.approx(2.0), 1.0, 2.0, "", True, "performance"], strict=True))  # fmt: skip
    by_args = {(test["args"], test["test_type"]): test for test in tests}
    wrong = by_args[MM.args, "performance"]
    assert [wrong[k] for k in ("speedup", "benchmark_time_ms", "reference_time_ms", "successfully_ran")] == [None, None, 2.0, False]  # fmt: skip
    assert wrong["error_msg"].startswith("Reference and result tensors are not close: max absolute")
    failed = by_args[MM_16.args, "correctness"]
    assert failed["error_msg"] == "operator_compile: error: failed to bufferize op"
    assert [failed[k] for k in ("is_correct", "error_type", "max_abs_error")] == [False, "bufferization", None]  # fmt: skip


def test_a_result_that_only_this_project_accepts_is_wrong_and_has_no_time(tree):
    tree.answers = {f"operator_verify 0/torch/llvm-cpu: {ADD.name}": {"backendbench_correct": False}}  # fmt: skip
    right, timed = json.loads(export(tree)["torch-llvm-cpu/full_results.json"])[:2]
    assert (right["op_name"], right["is_correct"]) == ("add.Tensor", False)
    assert (timed["successfully_ran"], timed["speedup"], timed["benchmark_time_ms"]) == (False, None, None)  # fmt: skip


def test_the_overall_summary_has_main_pys_scores(tree):
    found = export(tree, "--p", "1.5")
    torch, best = (found[f"{name}-llvm-cpu/OVERALL_SUMMARY.md"] for name in ("torch", "best"))
    assert "| Correctness Score | 0.50 |\n| Performance Score (geomean speedup) | 1.41 |\n| Perf@1.5 Score | 0.50 |\n" in torch  # fmt: skip
    assert "| Correctness Score | 1.00 |\n| Performance Score (geomean speedup) | 1.00 |\n" in best
    assert "| add.Tensor | 1.0000 | 2.0000x|\n| mm.default | 0.0000 | 1.0000x|\n" in torch


def test_only_problems_that_backendbench_includes_are_exported(tree):
    excluded = dataclasses.replace(FACTS, included_in_benchmark=False)
    tree.problems = [dataclasses.replace(ADD, facts=FACTS), dataclasses.replace(MM, facts=excluded)]
    tests = json.loads(export(tree, "--only", "frontend=torch")["torch-llvm-cpu/full_results.json"])
    assert {test["op_name"] for test in tests} == {"add.Tensor"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--only", "target=cuda"], "nothing to export: no problem that BackendBench includes was run"),
        (["--cell", "*/mlir/*"], "nothing to export: no record matches --cell */mlir/*; there are: aten.add"),
        (["--results", "elsewhere.jsonl"], "elsewhere.jsonl: no such file; run `vmfbench run --make results/operators.csv`"),
        (["--results", "models.jsonl"], "models.jsonl:1: Object missing required field `problem`; expected a record of this project, as `vmfbench run --make results/operators.csv` writes it"),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_refused_with_the_reason(tree, capsys, arguments, error):
    Path("models.jsonl").write_text('{"model": {"name": "m"}}\n')
    with pytest.raises(SystemExit):
        export(tree, *arguments)
    assert error in capsys.readouterr().err
