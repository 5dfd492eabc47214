"""measure.threads as a list: what is measured for each number, what is shared, and what is compared."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.config import expansion, plugins, settings, stages, torchbench
from scripts.config.cell import Cell, Kind, most_threads, of_axes, thread_numbers
from scripts.config.entries import Model, Override, by_threads
from scripts.config.feature import Draft
from scripts.config.rows import Matrix
from scripts.config.settings import ConfigError
from scripts.config.stages import VERIFICATION
from scripts.config.torchbench import TorchbenchFile
from scripts.results import record, speedups
from scripts.results.results_file import cell_of
from scripts.run import starting
from scripts.run.plan import Plan
from scripts.stages import check_expectations
from scripts.tools.kernels import kernel_matrix
from scripts.tools.profile import profile_files
from scripts.tools.report import failed
from scripts.tools.report.web.page_source import of_row
from scripts.tools.reproduce import case
from tests import declarations
from tests.declarations import CONFIG
from tests.report_records import write_profiles
from tests.unit.conftest import MATRIX, ResultsTree

PINS = "dependencies: ['python=3.11', pip, {{pip: ['{}']}}]\n"


def of_numbers(numbers: Any, matrix: Matrix = MATRIX) -> Matrix:
    """A matrix as `measure: {threads: …}` makes it."""
    measure = {**matrix.measure, "threads": numbers}
    listed = thread_numbers(measure)
    entries = {
        "targets": by_threads(matrix.targets, listed),
        "baselines": by_threads(matrix.baselines, listed),
    }
    return dataclasses.replace(matrix, measure=measure, **entries)


def plan(numbers: Any = (1, 2), matrix: Matrix = MATRIX) -> Plan:
    listed = [*numbers] if isinstance(numbers, tuple) else numbers
    return Plan(of_numbers(listed, matrix), frozenset(), with_conda=False)


def on(target: str) -> Cell:
    return of_axes(model="conv", frontend="mlir", target=target)


def baseline(name: str) -> Cell:
    return of_axes(model="conv", baseline=name, test="eval")


# Cells


@pytest.fixture
def root(tmp_path) -> Path:
    """A folder of a Snakefile with what CONFIG names."""
    pins = {"e": "torch==2.15.0", "iree": "iree-base-compiler==3.13.0', 'iree-base-runtime==3.13.0"}
    files = {f"envs/{env}.yaml": PINS.format(pinned) for env, pinned in pins.items()}
    return declarations.write_project(tmp_path, files)


def expanded(root: Path, numbers: Any, changes: dict | None = None, **selections: str) -> Matrix:
    declared = copy.deepcopy(CONFIG) | {"models": {"b": {}}} | (changes or {})
    declared["limits"] = {key: {"timeout_s": 10} for key in stages.limits()}
    declared["measure"] = {"threads": numbers}
    declared["baselines"] |= {"gpu": {"runtime": "eager", "device": "cuda", "env": "e"}}
    settings.check(declared)
    return expansion.expand(declared, selections, root)


def names(matrix: Matrix) -> list[str]:
    return [str(row).removeprefix("b/").replace("f/", "", 1) for row in matrix.rows() if "g/" not in str(row)]  # fmt: skip


def test_a_cell_of_a_cpu_is_one_cell_per_number_and_a_cell_of_a_gpu_is_one(root):
    assert names(expanded(root, [4, 1])) == [
        *("cpu+4-threads", "cpu+1-threads", "gpu", "amd"),
        *("eager+4-threads/eval", "eager+1-threads/eval", "gpu/eval"),
    ]


@pytest.mark.parametrize("numbers", [1, 2])
def test_one_number_is_in_no_name(root, numbers):
    assert names(expanded(root, numbers)) == ["cpu", "gpu", "amd", "eager/eval", "gpu/eval"]


def test_a_list_of_one_has_the_names_of_longer_lists(root):
    one, two = (names(expanded(root, numbers)) for numbers in ([2], [1, 2]))
    assert [name for name in two if "+1-" not in name] == one


def test_a_selection_by_the_name_of_the_entry_takes_all_its_numbers(root):
    found = expanded(root, [1, 2], targets="cpu", baselines="eager")
    assert names(found) == ["cpu+1-threads", "cpu+2-threads", "eager+1-threads/eval", "eager+2-threads/eval"]  # fmt: skip


def test_a_toolchain_has_all_numbers_and_a_compilation_of_its_own(root):
    old = {"toolchains": {"old": {"iree": "3.12.0"}}}
    found = expanded(root, [1, 2], old, toolchains="pinned,old", targets="cpu")
    assert [*found.targets] == ["cpu+1-threads", "cpu+1-threads@old", "cpu+2-threads", "cpu+2-threads@old"]  # fmt: skip
    assert {str(one) for one in found.of_kind(Kind.MODULE)} == {
        f"b/{frontend}/{target}" for frontend in "fg" for target in ("cpu", "cpu@old")
    }
    made = Plan(found, frozenset(), with_conda=False)
    of = of_axes(model="b", frontend="f", target="cpu@old")
    assert made.env("compile", of) == "iree@old"
    assert json.loads(made.requests.compile(of))["toolchain"] == "old"
    group = of_axes(model="b", device="cpu+2-threads", test="eval")
    files = made.groups.files(group, "verification.json")
    for target in ("cpu+2-threads", "cpu+2-threads@old"):
        assert f"results/verify/b/f/{target}/verification.json" in files


def test_kernels_are_measured_for_each_number_too():
    known = {"frontends": {}, "targets": MATRIX.targets, "baselines": MATRIX.baselines}
    config = {"kernels": {"targets": ["llvm-cpu"]}}
    named = {"k": Model("k", "models/kernels/k.py", suite="kernels")}
    draft = Draft(config, {}, plugins.ROOT, known=known, named=named)
    found = kernel_matrix.read(draft, of_numbers([1, 2]))
    assert found is not None
    assert [*found.targets] == ["llvm-cpu+1-threads", "llvm-cpu+2-threads"]
    assert [str(row) for row in found.rows()] == [f"k/eager+{n}-threads/eval" for n in (1, 2)]


# What is shared


def test_references_programs_and_modules_are_shared():
    matrix = of_numbers([1, 2, 4])
    rows = [row for row in matrix.rows() if row.kind is Kind.IREE and "cpu" in str(row)]
    assert len(rows) == 2 * 3
    for row in rows:
        chain = {stage.name: str(of) for stage, of in matrix.chain(row)}
        model = row.model
        assert chain == {
            "reference": model,
            "export": f"{model}/mlir",
            "compile": f"{model}/mlir/llvm-cpu",
            "verify": str(row),
        }
        assert {str(of) for stage, of in of_row(row) if stage.name == "remedy"} == {
            chain["compile"]
        }
    assert {str(one) for one in matrix.of_kind(Kind.MODULE)} == {
        f"{model}/mlir/{target}" for model in MATRIX.models for target in MATRIX.targets
    }


def test_a_module_is_compiled_with_the_same_options_as_for_one_number():
    of = on(target="llvm-cpu")
    assert plan().requests.compile(of) == plan(2).requests.compile(of)
    assert plan().modules.text(of) == plan(2).modules.text(of)
    for target in ("llvm-cpu+1-threads", "llvm-cpu+2-threads"):
        made = plan().modules.files(on(target=target), "module.vmfb")
        assert made == ["results/compile/conv/mlir/llvm-cpu/module.vmfb"]
        assert plan().module(on(target=target), "module.vmfb") == made[0]


def test_what_is_dumped_of_a_module_is_shared_and_profiles_are_of_each_number():
    found = plan()
    dumps = [path for path in found["profile"].dumps() if "/conv/iree/" in path]
    assert dumps == [f"results/dumps/conv/iree/mlir/{t}/files.json" for t in ("llvm-cpu", "vulkan")]
    assert [path for path in found["profile"].profiles() if "/conv/" in path] == [
        *(f"results/profile/conv/cpu+{n}-threads/eval/profiles.json" for n in (1, 2)),
        "results/code/conv/iree/mlir/llvm-cpu/code.json",
    ]


@pytest.mark.parametrize("skipped", ["conv/mlir/llvm-cpu", "conv/mlir/llvm-cpu+2-threads"])
def test_a_torchbench_file_skips_the_module_and_the_measurements(tmp_path, skipped):
    (tmp_path / "b.yaml").write_text("skip: {all: [conv]}")
    lists = TorchbenchFile.read(tmp_path / "b.yaml")
    matrix = of_numbers([1, 2])
    conv = dataclasses.replace(MATRIX.models["conv"], torchbench="conv", broken="x")
    found = torchbench.apply_torchbench(dataclasses.replace(matrix, models={"conv": conv}), lists, tmp_path)  # fmt: skip
    assert found.override(skipped) != Override()


# Commands


@pytest.mark.parametrize(
    ("numbers", "cell", "threads"),
    [
        ([1, 2], on("llvm-cpu+2-threads"), 2),
        ([1, 2], of_axes(device="cpu+1-threads"), 1),
        ([1, 2], on("vulkan"), None),
        ([1, 2], None, None),  # operator problems
        (2, on("llvm-cpu"), 2),
        (2, on("vulkan"), 2),
        (2, None, 2),
        (None, on("llvm-cpu"), None),
    ],
)
def test_a_measurement_takes_the_number_of_its_name_or_the_configured_one(numbers, cell, threads):
    assert plan(numbers).requests.threads(cell).get("threads") == threads


def test_a_baseline_takes_the_number_of_its_name():
    request = plan().requests.baseline(baseline("eager+2-threads"))
    assert json.loads(request)["threads"] == 2
    assert request == plan(2).requests.baseline(baseline("eager"))


def test_another_number_adds_cells_and_leaves_the_others_as_they_are():
    few, more = plan((1, 2)), plan((4, 1, 2))
    rows = [str(row) for row in few.matrix.rows()]
    assert {*rows} < {str(row) for row in more.matrix.rows()}
    for row in few.matrix.rows():
        assert few.requests.threads(row) == more.requests.threads(row)
        assert few.matrix.chain(row) == more.matrix.chain(row)
        if row.kind is Kind.IREE:
            assert few.requests.compile(row) == more.requests.compile(row)
            assert few.modules.files(row, "module.vmfb") == more.modules.files(row, "module.vmfb")  # fmt: skip
        else:
            assert few.requests.baseline(row) == more.requests.baseline(row)


def test_the_limits_of_a_cpu_are_measured_for_each_number():
    found = plan()
    assert [*found.matrix.devices()] == ["cpu+1-threads", "cpu+2-threads", "vulkan"]
    assert found.cpus() == ["cpu+1-threads", "cpu+2-threads"]
    assert plan(2).cpus() == ["cpu"]
    assert found.on_device(of_axes(device="cpu+2-threads")).on_cpu


def test_a_cluster_is_asked_for_the_cores_of_the_largest_number():
    assert most_threads({"threads": [2, 8, 4]}) == 8
    assert most_threads({"threads": 3}) == 3
    assert most_threads({}) == 1


# Refusals


def test_kept_results_of_tuning_are_not_used_with_several_numbers(root):
    tuned = {"targets": {"cpu": {"backend": "llvm-cpu", "tuned": "auto"}}}
    with pytest.raises(ConfigError, match=r"targets\.cpu\.tuned: auto needs a single number in measure\.threads, found the list \[1, 2\]"):  # fmt: skip
        expanded(root, [1, 2], tuned)
    expanded(root, 2, tuned)


def test_tuning_is_for_one_number():
    with pytest.raises(ConfigError, match=r"measure\.threads is the list \[1, 2\], but results/tuned\.csv needs a single number"):  # fmt: skip
        plan()["variants"].results()
    plan(2)["variants"].results()


def test_an_unknown_flag_is_reported_once_for_all_numbers(monkeypatch):
    monkeypatch.setattr(starting.tools, "compiler_of", lambda prefix: prefix)
    monkeypatch.setattr(starting, "_flags", lambda env, compiler: (["--y"], "3.13.0"))
    assert starting.flag_problems(of_numbers([1, 2])) == [
        "targets.llvm-cpu.flags: iree-compile 3.13.0 does not know --x; did you mean --y?"
    ]


# Expectations


@pytest.mark.parametrize("pattern", ["b/*/cpu", "b/*/cpu+2-threads", "b/eager/eval"])
def test_an_expectation_may_name_a_number_or_leave_it_out(root, pattern):
    expanded(root, [1, 2], {"expect": {pattern: "ok"}})


def test_an_expectation_of_a_number_that_is_not_measured_matches_nothing(root):
    with pytest.raises(ConfigError, match=r"expect\.b/\*/cpu\+8-threads: matches no cell"):
        expanded(root, [1, 2], {"expect": {"b/*/cpu+8-threads": "ok"}})


# Rows


@pytest.fixture
def rows(results: ResultsTree) -> list[dict[str, Any]]:
    """The records of a run with one and with two threads: eager takes 10 ms and 6 ms, IREE half of that."""
    results.matrix = of_numbers([1, 2])
    numbers = {row: number for row in results.matrix.rows() if (number := row.threads)}
    for row, number in numbers.items():
        ms = (10.0 if number == 1 else 6.0) / (2 if row.kind is Kind.IREE else 1)
        results.values_ms[str(row)] = (ms,) * 5
    results.write()
    for row, number in numbers.items():
        path = Path(stages.STAGES[stages.LAST[row.kind]].path(row, VERIFICATION))
        results.verify(path, threads=number)
    return record.records(results.matrix)


def of_cell(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    [found] = [one for one in rows if str(cell_of(one)) == name]
    return found


def test_each_number_is_a_row_with_the_module_that_it_shares(rows):
    found = of_cell(rows, "conv/mlir/llvm-cpu+2-threads")
    assert found["experiment"]["target"] == "llvm-cpu+2-threads"
    assert found["run"]["threads"] == 2
    assert found["compile"]["dispatch_count"] == 12
    baseline = of_cell(rows, "conv/eager+1-threads/eval")
    assert (baseline["experiment"]["runtime"], baseline["run"]["threads"]) == ("eager", 1)


def test_a_row_is_compared_with_the_baseline_of_as_many_threads(rows):
    for number in (1, 2):
        found = of_cell(rows, f"conv/mlir/llvm-cpu+{number}-threads")
        assert found["latency"]["speedup_vs_eager"] == pytest.approx(2.0)
        own = of_cell(rows, f"conv/eager+{number}-threads/eval")
        assert own["latency"]["speedup_vs_eager"] == 1.0


def test_a_compilation_that_fails_fails_the_rows_of_all_numbers(results, ended):
    results.matrix = of_numbers([1, 2])
    results.write(ended("error", "compile", "conv/mlir/llvm-cpu", "bufferization"))
    found = record.records(results.matrix)
    for number in (1, 2):
        row = of_cell(found, f"conv/mlir/llvm-cpu+{number}-threads")
        assert row["outcome"]["reason"] == "bufferization"
        assert row["run"]["threads"] == number
        assert row["outcome"]["blocked_by"] == "compile conv/mlir/llvm-cpu"


def test_a_row_without_limits_names_the_stage_that_measures_them(rows):
    found = of_cell(rows, "conv/mlir/llvm-cpu+2-threads")
    found["experiment"]["device"] = "cpu"
    said = speedups._no_limits(found, [])
    assert "results/machine_limits/cpu+2-threads/status.json" in said


def test_a_row_is_checked_against_expectations_with_and_without_its_number(rows):
    expect = {"conv/*/llvm-cpu": "ok", "conv/*/llvm-cpu+2-threads": "oom"}
    checked = check_expectations.check(rows, expect)
    assert len(checked) == 2
    violations = [violation.cell for cell in checked for violation in cell.violations]
    assert violations == ["conv/mlir/llvm-cpu+2-threads"]


def test_a_reproducer_of_a_row_is_of_the_compilation_that_failed(results, ended):
    results.matrix = of_numbers([1, 2])
    results.write(ended("error", "compile", "conv/mlir/llvm-cpu", "bufferization"))
    for file in ("weights.irpa", "inputs.npz", "golden.npz"):
        Path("results/reference/conv", file).write_text("x")
    Path("results/export/conv/mlir/program.mlir").write_text("module {}")
    row = of_cell(record.records(results.matrix), "conv/mlir/llvm-cpu+2-threads")
    found = case.case_of(Path(), SimpleNamespace(data=row))
    assert (found.ended.stage, found.ended.reason) == (case.COMPILE, "bufferization")


def test_the_dumps_of_a_module_are_among_the_failures():
    found = failed._cells(of_numbers([1, 2]))
    assert ("dumps", "conv/iree/mlir/llvm-cpu") in found


def test_why_shows_the_baselines_that_were_profiled_with_as_many_threads(tmp_path):
    for number in (1, 2):
        iree, eager = ({"runtime": runtime, "threads": number} for runtime in ("iree", "eager"))
        members = {
            f"conv/mlir/llvm-cpu+{number}-threads": iree,
            f"conv/eager+{number}-threads/eval": eager,
        }
        write_profiles(tmp_path / "results", f"conv/cpu+{number}-threads/eval", members)
    found = profile_files.read(tmp_path / "results", "conv/mlir/llvm-cpu+2-threads")
    assert found.others["eager"]["threads"] == 2
    with pytest.raises(profile_files.NoProfile, match=r"targets=llvm-cpu$"):
        profile_files.read(tmp_path / "results", "conv/mlir/llvm-cpu+4-threads")
