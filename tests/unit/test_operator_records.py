"""Records of operator problems: a row per problem × lowering path and per problem × baseline."""

import copy
import dataclasses
import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from scripts.config.stages import status_path
from scripts.results import columns
from scripts.stages import aggregate_results
from scripts.supervise import outcome
from scripts.tools.operators.report import problem_record
from scripts.tools.operators.report.columns import COLUMNS, FIELDS, FORM
from tests.declared import undeclared
from tests.operator_results import ADD, FACTS, MM, MM_16, OPERATORS, PROBLEMS, Tree
from tests.unit.conftest import MATRIX

COLUMNS_OF = ["torch/llvm-cpu", "torch/cuda", "xla/llvm-cpu", "xla/cuda", "eager"]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Tree(dataclasses.replace(MATRIX, parts={"operators": OPERATORS}))


def records(tree: Tree) -> dict[str, dict]:
    """The records of a tree by `<operator>/<column>`, and of MM_16 by `f16/<column>`."""
    tree.write()
    found = problem_record.of_batch(Path(), tree.matrix, "0", tree.problems)
    for one in found:
        assert FORM.problem(one) == ""
        assert list(undeclared(one, FIELDS)) == []
    names = {ADD.name: "add", MM.name: "mm", MM_16.name: "f16"}
    rows = zip([names[p.name] for p in tree.problems for _ in COLUMNS_OF], COLUMNS_OF * len(tree.problems), strict=True)  # fmt: skip
    return {f"{op}/{column}": one for (op, column), one in zip(rows, found, strict=True)}


def test_every_problem_has_a_row_per_path_and_per_baseline_with_its_numbers(tree):
    found = records(tree)
    assert [one["problem"]["name"] for one in found.values()] == [
        problem.name for problem in PROBLEMS for _ in COLUMNS_OF
    ]
    row = columns.as_row(found["mm/torch/llvm-cpu"], COLUMNS)
    assert [row[k] for k in ("op_name", "args", "uuid")] == [MM.op, MM.args, MM.uuid]
    assert [row[k] for k in ("count", "in_models", "in_models_count", "runnable")] == [3, "bert", 1, None]  # fmt: skip
    assert [row[k] for k in ("status", "stage", "fault", "verification_code")] == ["ok", "operator_verify", None, "PASS"]  # fmt: skip
    assert (row["latency_ms"], row["speedup_vs_eager"]) == (1.0, pytest.approx(2.0))
    assert (row["speedup_vs_eager_low"], row["verdict"], row["generations"]) == (pytest.approx(2.0), "faster", 5)  # fmt: skip
    assert (row["gb_per_s"], row["gflop_per_s"]) == (4.0, 16.0)  # 4 MB and 16 MFLOP in 1 ms
    assert (row["backendbench_correct"], row["max_rel_error"]) == (True, 0.1)
    assert (row["compile_s"], row["cached"], row["iree_version"]) == (0.1, False, "3.0")


def test_a_target_that_is_compiled_only_is_ok_without_a_latency(tree):
    row = columns.as_row(records(tree)["mm/torch/cuda"], COLUMNS)
    assert [row[k] for k in ("status", "stage", "verification_code")] == ["ok", "operator_compile", "VERIFIER_DIDNT_RUN"]  # fmt: skip
    assert (row["latency_ms"], row["backendbench_correct"], row["vmfb_bytes"]) == (None, None, 10)


def test_the_fields_of_a_dataset_are_columns(tree):
    tree.problems = [dataclasses.replace(MM, facts=FACTS, models=(), calls=())]
    row = columns.as_row(records(tree)["mm/eager"], COLUMNS)
    assert [row[name] for name in dataclasses.asdict(FACTS)] == [True, True, None, False, 0.5, 1.1, True]  # fmt: skip
    assert (row["in_models"], row["in_models_count"]) == (None, None)


@pytest.mark.parametrize(
    ("at", "status", "reason", "rows", "fault", "code"),
    [
        ("operator_reference 0", "unsupported", "unsupported", COLUMNS_OF, "problem", "EAGER_FAILED"),
        ("operator_export 0/xla", "unsupported", "operator", ["xla/llvm-cpu", "xla/cuda"], "pytorch-xla", "VERIFIER_DIDNT_RUN"),
        ("operator_compile 0/torch/cuda", "crashed", "SIGSEGV", ["torch/cuda"], "iree-codegen", "VERIFIER_DIDNT_RUN"),
        ("operator_verify 0/torch/llvm-cpu", "crashed", "SIGSEGV", ["torch/llvm-cpu"], "iree-runtime", "EXCEPTION_RAISED"),
        ("operator_verify 0/torch/llvm-cpu", "error", "wrong-result", ["torch/llvm-cpu"], "wrong-values", "FAIL"),
        ("operator_baseline 0/eager", "error", "RuntimeError", ["eager"], "pytorch", "EXCEPTION_RAISED"),
        ("operator_time 0/torch/llvm-cpu", "timeout", "time-limit", ["torch/llvm-cpu"], "iree-runtime", "PASS"),
        ("operator_time 0/eager", "error", "recompilation", ["eager"], "pytorch", "PASS"),
    ],
)  # fmt: skip
def test_a_failure_is_the_row_of_its_problem_and_of_no_other(
    tree, at, status, reason, rows, fault, code
):
    tree.endings = {f"{at}: {MM.name}": (status, reason, "what")}
    found = records(tree)
    assert [name for name, one in found.items() if one["outcome"]["status"] != "ok"] == [f"mm/{name}" for name in rows]  # fmt: skip
    stage = at.partition(" ")[0]
    for name in rows:
        row = columns.as_row(found[f"mm/{name}"], COLUMNS)
        assert [row[k] for k in ("status", "reason", "detail", "fault")] == [status, reason, "what", fault]  # fmt: skip
        assert (row["stage"], row["verification_code"], row["latency_ms"]) == (stage, code, None)
        last = name in ("torch/llvm-cpu", "eager") or stage == "operator_compile"
        blocked = None if last and stage != "operator_reference" else f"{at}: {MM.name}"
        assert row["blocked_by"] == blocked


def test_the_job_of_a_batch_that_fails_is_the_outcome_of_its_problems(tree):
    tree.jobs = {"operator_compile 0/xla/cuda": ("timeout", "timeout", "no end after 9 s")}
    found = records(tree)
    for op in ("add", "mm", "f16"):
        ended = found[f"{op}/xla/cuda"]["outcome"]
        assert (ended["status"], ended["stage"], ended["fault"]) == ("timeout", "operator_compile", "iree-codegen")  # fmt: skip


@pytest.mark.parametrize("damaged", [lambda _: "", lambda text: text[:-5], lambda text: text.partition("\n")[0] + "\n", lambda _: '{"problem": 1}\n'])  # fmt: skip
def test_a_damaged_file_of_outcomes_is_the_row_and_is_made_again(tree, damaged):
    tree.write()
    path = Path("results/operator_verify/0/torch/llvm-cpu/outcomes.jsonl")
    path.write_text(damaged(path.read_text()))
    aggregate(tree)
    rows = pd.read_csv("results/operators.csv")
    damaged = rows[rows["status"] == "damaged"]
    assert set(damaged["frontend"]) == {"torch"}
    assert set(damaged["target"]) == {"llvm-cpu"}
    assert set(damaged["fault"]) == {"machine"}
    assert len(damaged) == len(PROBLEMS)
    status = outcome.read(status_path("operator_verify", "0/torch/llvm-cpu"))
    assert status.status == "damaged"


@pytest.mark.parametrize(("overhead_ms", "is_overhead"), [(0.5, False), (1.6, True), (None, None)])
def test_a_problem_is_overhead_here_by_eager_on_the_same_kind_of_device(
    tree, overhead_ms, is_overhead
):
    tree.empty_ms = {MM.name: overhead_ms}  # eager takes 2 ms
    found = records(tree)
    assert found["mm/torch/llvm-cpu"]["run"]["overhead_here"] is is_overhead
    assert found["mm/torch/cuda"]["run"]["overhead_here"] is None
    assert found["add/torch/llvm-cpu"]["run"]["overhead_here"] is False


def test_a_failure_is_refused_without_a_fault_and_a_latency_without_a_pass(tree):
    one = records(tree)["mm/torch/llvm-cpu"]
    for path, value in (("outcome.fault", "iree-codegen"), ("verification.code", "FAIL"), ("latency", None)):  # fmt: skip
        section, _, key = path.partition(".")
        wrong = copy.deepcopy(one)
        if key:
            wrong[section][key] = value
        else:
            wrong[section] = value
        assert FORM.problem(wrong), path
    failed = copy.deepcopy(one)
    failed["outcome"] |= {"status": "error", "reason": "why", "detail": "what"}
    failed["verification"]["code"] = "VERIFIER_DIDNT_RUN"
    failed["latency"] = None
    assert FORM.problem(failed)
    failed["outcome"]["fault"] = "iree-codegen"
    assert FORM.problem(failed) == ""


def aggregate(tree: Tree) -> None:
    """Run the command as the rule does."""
    Path("matrix.json").write_text(json.dumps(tree.matrix.to_json()))
    source = {"problems": 4, "selected": 3, "max_elements": 9, "larger": 1, "notes": ["no models"]}
    Path("results/operators/source.json").write_text(json.dumps(source))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["x", "--set", "operators", "--matrix", "matrix.json"])
        aggregate_results.main()


def test_the_command_writes_a_row_per_record_and_says_what_was_selected(tree):
    tree.write()
    aggregate(tree)
    rows = pd.read_csv("results/operators.csv")
    assert list(rows.columns) == [one.column for one in COLUMNS]
    lines = Path("results/operators/operators.jsonl").read_text().splitlines()
    assert len(rows) == len(lines) == len(PROBLEMS) * len(COLUMNS_OF)
    assert list(rows["op_name"]) == [json.loads(line)["problem"]["op"] for line in lines]
    page = Path("results/operators.md").read_text()
    assert "3 of the 4 problems of the source are selected; 1 have more than 9 elements.\n" in page
    assert "\nno models.\n" in page
