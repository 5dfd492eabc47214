"""check_expectations: rows against what the configuration expects of them."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest
import yaml

from scripts.core import atomic
from scripts.matrix.entries import Baseline
from scripts.records import record
from scripts.records.results_file import cell_of
from scripts.stages import check_expectations
from scripts.stages.check_expectations import compare


@pytest.fixture
def found(results, ended):
    results.write(ended("error", "compile", "conv/mlir/vulkan", "bufferization"))
    return record.records(results.matrix)


@pytest.mark.parametrize(
    ("expect", "differing", "checked"),
    [
        ({}, [], 0),
        pytest.param({"*/*/llvm-cpu": "ok", "*/eager/eval": "ok"}, [], 4),
        ({"*": "ok"}, ["conv/mlir/vulkan"], 6),
        ({"*": "ok", "conv/mlir/vulkan": "error"}, [], 6),
        ({"conv/mlir/vulkan": "error", "*": "ok"}, ["conv/mlir/vulkan"], 6),  # the last counts
        ({"conv/*/vulkan": {"status": "error", "stage": "compile", "reason": "bufferization"}}, [], 1),
        ({"conv/*/vulkan": {"status": "error", "stage": "export"}}, ["conv/mlir/vulkan"], 1),
        ({"conv/*/vulkan": ["oom", "error"], "conv/*/llvm-cpu": ["ok", "unavailable"]}, [], 2),
        ({"conv/*/vulkan": ["ok", "unavailable"]}, ["conv/mlir/vulkan"], 1),
        pytest.param({"tiny/eager/*": "oom"}, ["tiny/eager/eval"], 1),
        pytest.param({"*/eager": "oom"}, [], 0),
    ],
)  # fmt: skip
def test_cells_that_differ_from_their_last_match_are_listed(found, expect, differing, checked):
    differences, count = compare(found, expect)
    assert [line[0] for line in differences] == differing
    assert count == checked


def test_a_difference_shows_both_sides_and_the_detail(found):
    expect = {"conv/mlir/vulkan": {"status": "error", "reason": "stack"}}
    differences, _ = compare(found, expect)
    assert differences == [("conv/mlir/vulkan", "error stack", "error bufferization", "what")]
    differences, _ = compare(found, {"conv/mlir/vulkan": ["ok", "unavailable"]})
    assert differences == [("conv/mlir/vulkan", "ok or unavailable", "error", "what")]


@pytest.fixture
def check(found, monkeypatch):
    def run(expect: dict, *arguments: str) -> int:
        Path("r.jsonl").write_text("".join(json.dumps(one) + "\n" for one in found))
        atomic.write_json("matrix.json", {"expect": expect})
        words = ["x", "--matrix", "matrix.json", "--results", "r.jsonl", *arguments]
        monkeypatch.setattr(sys, "argv", words)
        return check_expectations.main()

    return run


@pytest.mark.parametrize(
    ("expect", "code"),
    [
        ({"*/eager/eval": "ok"}, 0),
        ({"*": "ok"}, 1),
        pytest.param({"*/eager/*": "oom"}, 1),
    ],
)
def test_the_exit_code_says_whether_all_is_as_expected(check, expect, code):
    assert check(expect) == code


def test_only_the_cells_selected_are_checked(check, capsys):
    assert check({"*": "ok"}, "--cell", "tiny/*") == 0
    assert "3 of 3 cells have an expectation" in capsys.readouterr().out
    assert check({"*": "ok"}, "--cell", "!tiny/*") == 1
    with pytest.raises(SystemExit):
        check({"*": "ok"}, "--cell", "none/*")
    assert "no cell of 6 matches --cell none/*" in capsys.readouterr().err


def test_what_was_found_printed_as_configuration_is_what_is_then_expected(check, capsys):
    assert check({}, "--as-config") == 0
    expect = yaml.safe_load(capsys.readouterr().out)["expect"]
    assert len(expect) == 6
    assert check(expect) == 0


def test_each_test_of_a_baseline_is_held_to_its_own_expectation(results, ended):
    results.matrix = dataclasses.replace(results.matrix, tests=("eval", "train"))
    results.write(ended("error", "gradients", "conv"))
    expect = {"*/eager/*": "ok", "conv/eager/train": {"status": "error", "stage": "gradients"}}
    assert compare(record.records(results.matrix), expect) == ([], 4)
    differences, count = compare(record.records(results.matrix), {"*/train": "ok"})
    assert ([line[0] for line in differences], count) == (["conv/eager/train"], 2)


def test_the_cells_are_named_as_the_matrix_names_them(results):
    results.matrix = dataclasses.replace(
        results.matrix,
        tests=("eval", "train"),
        baselines={
            "eager": results.matrix.baselines["eager"],
            "half": Baseline("half", "eager", "cpu", "torch-mlir", "fp16"),
        },
    )
    results.write()
    assert list(map(cell_of, record.records(results.matrix))) == list(results.matrix.rows())
