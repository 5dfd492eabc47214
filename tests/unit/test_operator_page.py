"""The page and the summary of operator problems: scores, what to fix first, pass rates, times."""

import dataclasses
import re
from pathlib import Path

import pytest
from rich.console import Console

from scripts.results.screen import Printed
from scripts.tools.operators.report import analysis, page, problem_record
from scripts.tools.operators.report.analysis import Table, rates
from tests.operator_results import ADD, FACTS, MM, MM_16, OPERATORS, Tree
from tests.unit.conftest import MATRIX

TORCH, XLA = "operator_compile 0/torch/llvm-cpu", "operator_compile 0/xla/llvm-cpu"
STACK = ("error", "stack-allocation-limit", "'func.func' op exceeded stack allocation limit of {} bytes for function [program.mlir:3: %1]")  # fmt: skip


def stack(bytes_: int) -> tuple[str, str, str]:
    return (*STACK[:2], STACK[2].format(bytes_))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Tree(dataclasses.replace(MATRIX, parts={"operators": OPERATORS}))


def table(tree: Tree) -> Table:
    tree.write()
    return Table(problem_record.of_batch(Path(), tree.matrix, "0", tree.problems))


def scores(found: list[analysis.Scored]) -> dict[str, tuple]:
    """Theirs and ours by label: problems, correctness, performance, perf@1."""

    def of(one):
        shown = (one.correctness, round(one.performance, 6), one.perf_at_p)
        return (sum(o.problems for o in one.operators), *shown)

    return {one.label: (of(one.theirs), of(one.ours)) for one in found}


def test_each_path_and_the_best_of_them_has_scores_and_a_target_that_is_not_run_has_none(tree):
    # torch is twice as fast as eager, xla half as fast. One of the two products is wrong by torch.
    tree.endings = {f"operator_verify 0/torch/llvm-cpu: {MM.name}": ("error", "wrong-result", "FAIL")}  # fmt: skip
    found = scores(analysis.scored(table(tree)))
    assert found == {
        "torch/llvm-cpu": ((3, 0.75, round((2 * 2**0.5) ** 0.5, 6), 0.5),) * 2,
        "xla/llvm-cpu": ((3, 1.0, 0.5, 0.0),) * 2,
        "best path/llvm-cpu": ((3, 1.0, round((2 * (2 * 0.5) ** 0.5) ** 0.5, 6), 0.5),) * 2,
    }


def test_their_scores_are_of_included_problems_by_their_criterion_and_ours_without_weak_ones(tree):
    excluded = dataclasses.replace(FACTS, included_in_benchmark=False)
    tree.problems = [dataclasses.replace(ADD, facts=FACTS), dataclasses.replace(MM, facts=FACTS), dataclasses.replace(MM_16, facts=excluded)]  # fmt: skip
    measured = f"operator_verify 0/torch/llvm-cpu: {ADD.name}"
    tree.answers = {
        f"operator_reference 0: {MM.name}": {"weak": ["zeros"]},
        measured: {"backendbench_correct": False},  # passes this project's verification
    }
    theirs, ours = scores(analysis.scored(table(tree)))["torch/llvm-cpu"]
    assert theirs == (2, 0.5, round(2**0.5, 6), 0.5)
    assert ours == (2, 1.0, 2.0, 1.0)


def test_failures_of_one_kind_are_one_fix_and_are_ordered_by_the_calls_that_they_free(tree):
    tree.endings = {
        f"{TORCH}: {ADD.name}": stack(1),
        f"{XLA}: {ADD.name}": stack(2),
        f"{TORCH}: {MM.name}": stack(3),
        f"{TORCH}: {MM_16.name}": ("error", "bufferization", "failed to bufferize op"),
    }
    first, second = analysis.fixes(table(tree))
    assert (first.first.reason, first.calls, first.blocked_calls) == ("bufferization", 100, 0)
    assert (second.first.reason, second.calls, second.first.fault) == ("stack-allocation-limit", 13, "iree-codegen")  # fmt: skip
    assert second.blocked == [p for p in second.problems if p.op == ADD.op]  # MM passes by xla
    assert second.blocked_calls == 10
    assert [column.label for column in second.columns] == ["torch/llvm-cpu", "xla/llvm-cpu"]
    # gpt fails by torch for two reasons; bert only for this one. By xla both fail for it alone.
    assert first.alone == []
    assert {(model, column.label) for model, column in second.alone} == {
        ("bert", "torch/llvm-cpu"),
        ("bert", "xla/llvm-cpu"),
        ("gpt", "xla/llvm-cpu"),
    }


def test_what_is_not_the_fault_of_a_compiler_is_no_fix(tree):
    tree.endings = {
        f"operator_reference 0: {ADD.name}": ("unsupported", "unsupported", "random: it draws"),
        f"{TORCH}: {MM.name}": ("error", "disk-full", "No space left on device"),
    }
    assert analysis.fixes(table(tree)) == []


def test_the_rates_of_a_target_count_what_passes_on_each_path_and_on_any(tree):
    tree.endings = {f"{TORCH}: {MM.name}": stack(1), f"{XLA}: {MM_16.name}": stack(1)}
    found = table(tree)
    of_cpu, of_cuda = (rates(found, target) for target in ("llvm-cpu", "cuda"))
    assert [(r.passed, r.total) for r in (*of_cpu.all.by_column, of_cpu.all.best)] == [(2, 3), (2, 3), (3, 3)]  # fmt: skip
    by_operator = {of.op: [r.passed for r in of.by_column] for of in of_cpu.operators}
    assert by_operator == {ADD.op: [1, 1], MM.op: [1, 1]}
    assert (of_cpu.has_run, of_cuda.has_run) == (True, False)
    assert [r.passed for r in of_cuda.all.by_column] == [3, 3]  # compiled


def test_the_time_of_a_model_is_its_own_calls_times_eagers_latency(tree):
    tree.endings = {f"{TORCH}: {MM.name}": stack(1), f"{XLA}: {MM.name}": stack(1)}
    bert, gpt = analysis.model_times(table(tree), "llvm-cpu")
    # eager takes 2 ms per call, torch 1 ms. No path runs MM, which only bert calls.
    assert [(of.op, of.calls, of.eager_ms, of.best_ms, of.unverified) for of in bert.operators] == [
        (ADD.op, 6, 12.0, 6.0, 0),
        (MM.op, 3, 6.0, 6.0, 3),
    ]
    assert (bert.model, bert.calls, bert.total("calls")) == ("bert", 9, 9)
    assert [(of.op, of.calls, of.eager_ms) for of in gpt.operators] == [(MM.op, 100, 200.0), (ADD.op, 4, 8.0)]  # fmt: skip


def test_a_module_that_does_not_run_passes_only_where_there_is_no_device(tree):
    crashed = ("crashed", "SIGSEGV", "killed by SIGSEGV")
    tree.endings = {f"operator_verify 0/torch/llvm-cpu: {MM.name}": crashed}
    found = rates(table(tree), "llvm-cpu")
    assert [rate.passed for rate in found.all.by_column] == [2, 3]


def test_a_target_whose_device_is_missing_counts_what_compiles(tree):
    operators = dataclasses.replace(OPERATORS, compile_only=())
    tree.matrix = dataclasses.replace(MATRIX, parts={"operators": operators})
    tree.endings = {f"operator_verify 0/{path}/cuda: {p.name}": ("unavailable", "no-device", "no device cuda") for path in ("torch", "xla") for p in tree.problems}  # fmt: skip
    tree.endings |= {f"operator_compile 0/xla/cuda: {MM.name}": stack(1)}
    found = rates(table(tree), "cuda")
    assert (found.has_run, [rate.passed for rate in found.all.by_column]) == (False, [3, 2])


def test_a_model_whose_calls_are_not_known_has_no_time(tree):
    tree.problems = [dataclasses.replace(MM, calls=())]
    assert analysis.model_times(table(tree), "llvm-cpu") == []


def test_the_page_has_the_reason_and_the_fault_of_each_problem_that_no_path_passes(tree):
    tree.endings = {
        f"{TORCH}: {MM.name}": stack(1),
        f"operator_export 0/xla: {MM.name}": (
            "unsupported",
            "operator",
            "ops not capturable: aten::mm",
        ),
    }
    tree.answers = {f"operator_reference 0: {ADD.name}": {"weak": ["zeros"], "marks": ["constant"]}}
    shown = page.page(table(tree), {})
    assert shown == page.page(table_again(tree), {})
    assert "3 problems of 2 operators; 9 of 12 rows of lowering paths pass.\n" in shown
    blocked = shown.partition("## On no path\n")[2].partition("\n## ")[0]
    line = "| aten.mm.default | `((T([2, 4], f32), T([4, 2], f32)), {})` | 3 |"
    assert f"{line} iree-codegen, pytorch-xla |" in blocked
    assert "| torch: stack-allocation-limit: 'func.func' op exceeded" in blocked
    assert "<br>xla: operator: ops not capturable: aten::mm |\n" in blocked
    assert "### llvm-cpu\n" in blocked
    assert "### cuda" not in blocked  # torch compiles it
    assert "### cuda: compiled (not run: there is no such device)\n" in shown
    assert "| aten.mm.default | 103 | 1 of 2 | 1 of 2 | 1 of 2 |\n" in shown
    assert "All problems of these operators pass on every path: aten.add.Tensor (1).\n" in shown
    assert "passes the verification of 1 of 3 problems (33.3%), and BackendBench's criterion for 0" in shown  # fmt: skip
    assert "Marked results: 1 constant.\n" in shown
    for rows in re.findall(r"(?:^\|.*\n)+", shown, re.MULTILINE):
        assert len({line.count("|") for line in rows.replace("\\|", "").splitlines()}) == 1


def table_again(tree: Tree) -> Table:
    return Table(problem_record.of_batch(Path(), tree.matrix, "0", tree.problems))


def test_a_source_without_a_limit_of_elements_leaves_out_none(tree):
    source = {"problems": 9, "selected": 3, "max_elements": None, "larger": 0, "notes": []}
    shown = page.page(table(tree), source)
    assert "\n3 of the 9 problems of the source are selected.\n" in shown


def test_a_selection_without_problems_is_a_page_too():
    assert page.page(Table([]), {}) == "# Operators\n\nNo problem is selected.\n"


@pytest.mark.parametrize("width", [60, 200])
def test_the_summary_has_rates_and_scores_by_path_and_the_first_failures(tree, width):
    tree.endings = {f"{TORCH}: {MM.name}": stack(1)}
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(Printed(page.on_screen(table(tree))))
    shown = console.export_text()
    lines = [re.split(r"\s{2,}", line.strip()) for line in shown.splitlines()]
    assert ["torch/llvm-cpu", "2 of 3", "75.0%", "1.682", "50.0%"] in lines
    assert ["best path/llvm-cpu", "3 of 3", "100.0%", "1.414", "50.0%"] in lines
    assert ["torch/cuda", "3 of 3", "–", "–", "–"] in lines
    fix = shown.splitlines().index("iree-codegen: 3 calls, 1 problem of aten.mm.default")
    assert shown.splitlines()[fix + 1].startswith("  'func.func' op exceeded stack")
    assert max(map(len, shown.splitlines())) <= width
