"""`vmfbench check`: rows against what is expected of them, and the file that says so."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from scripts.config.entries import Baseline
from scripts.config.sections import AtMost
from scripts.core import atomic
from scripts.results import ci_formats, record
from scripts.results.columns import COLUMNS
from scripts.results.results_file import cell_of
from scripts.stages import check_expectations

CPU, VULKAN, EAGER = "conv/mlir/llvm-cpu", "conv/mlir/vulkan", "conv/eager/eval"


@pytest.fixture
def found(results, ended):
    results.write(ended("error", "compile", VULKAN, "bufferization"))
    return record.records(results.matrix)


def row(records, name):
    return next(one for one in records if str(cell_of(one)) == name)


def violated(records, expect) -> tuple[list[str], int]:
    checked = check_expectations.check(records, expect)
    return [one.cell for one in checked if one.violations], len(checked)


@pytest.mark.parametrize(
    ("expect", "differing", "checked"),
    [
        ({}, [], 0),
        ({"*/*/llvm-cpu": "ok", "*/eager/eval": "ok"}, [], 4),
        ({"*": "ok"}, [VULKAN], 6),
        ({"*": "ok", VULKAN: "error"}, [], 6),
        ({VULKAN: "error", "*": "ok"}, [VULKAN], 6),  # the last counts
        ({"conv/*/vulkan": {"status": "error", "stage": "compile", "reason": "bufferization"}}, [], 1),
        ({"conv/*/vulkan": {"status": "error", "stage": "export"}}, [VULKAN], 1),
        ({"conv/*/vulkan": ["oom", "error"], "conv/*/llvm-cpu": ["ok", "unavailable"]}, [], 2),
        ({"conv/*/vulkan": ["ok", "unavailable"]}, [VULKAN], 1),
        ({CPU: "error"}, [CPU], 1),  # a failure that is expected, and is none
        ({"*/eager": "oom"}, [], 0),
    ],
)  # fmt: skip
def test_cells_that_differ_from_their_last_match_are_listed(found, expect, differing, checked):
    assert violated(found, expect) == (differing, checked)


@pytest.mark.parametrize(
    ("name", "wanted", "line"),
    [
        (VULKAN, {"status": "error", "reason": "stack"}, "expected error stack, found error compile bufferization: what"),
        (VULKAN, ["ok", "unavailable"], "expected ok or unavailable, found error compile bufferization: what"),
        (CPU, "error", "expected error, found ok"),
        (CPU, {"status": "ok", "as_asked": False}, "expected ok by remedy, found ok as asked"),
        (CPU, {"status": "ok", "verdict": ["faster", "same"]}, "expected verdict faster or same, found slower"),
        (CPU, {"status": "ok", "at_most": {"dispatch_count": 2}}, "expected dispatch_count of at most 2, found 3"),
        (CPU, {"status": "ok", "at_most": {"transient_bytes": 2}}, "expected transient_bytes of at most 2, found none"),
        (EAGER, {"status": "ok", "verdict": "same"}, "expected verdict same, found none: it was not compared with a baseline"),
    ],
)  # fmt: skip
def test_a_violation_is_a_line_with_both_sides(found, name, wanted, line):
    of_cpu = row(found, CPU)
    of_cpu["latency"]["verdict"] = "slower"
    of_cpu["compile"]["dispatch_count"] = 3
    of_cpu["compile"]["transient_bytes"] = None
    (checked,) = check_expectations.check(found, {name: wanted})
    assert [violation.line for violation in checked.violations] == [line]


def test_what_is_undecided_is_no_violation_and_is_said(found, check, capsys):
    row(found, CPU)["latency"]["verdict"] = "undecided"
    assert check({CPU: {"status": "ok", "verdict": "faster"}}) == 0
    assert "0 violations, 1 verdicts undecided" in capsys.readouterr().out


@pytest.fixture
def check(found, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(expect: dict | str, *arguments: str) -> int:
        lines = "".join(json.dumps(one) + "\n" for one in found)
        Path("results/logs").mkdir(parents=True, exist_ok=True)
        Path("results/results.jsonl").write_text(lines)
        if isinstance(expect, dict):
            atomic.write_json("results/logs/matrix.json", {"expect": expect})
        else:
            Path("gate.yaml").write_text(expect)
            arguments = ("gate.yaml", *arguments)
        monkeypatch.setattr(sys, "argv", ["x", *arguments])
        return check_expectations.main()

    return run


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({}, "none of 6 cells has an expectation, so nothing is checked"),
        ("expect: {a/b/c: ok}", "none of 6 cells has an expectation"),
        ("models: {}", "gate.yaml: found no mapping `expect:`"),
        ("expect: {'*': fine}", 'gate.yaml: expect.*: found "fine"'),
        ("expect: {'*': {status: ok, at_most: {speed: 1}}}", "gate.yaml: expect.*.at_most.speed: "),
        ("expect: [", "gate.yaml, line 1, column 10: no YAML"),
    ],
)
def test_a_check_of_nothing_is_no_pass(check, capsys, expect, said):
    with pytest.raises(SystemExit) as ended:
        check(expect)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_only_the_cells_selected_are_checked(check, capsys):
    assert check({"*": "ok"}, "--cell", "tiny/*") == 0
    assert "3 of 3 cells have an expectation" in capsys.readouterr().out
    assert check({"*": "ok"}, "--cell", "!tiny/*") == 1
    with pytest.raises(SystemExit):
        check({"*": "ok"}, "--cell", "none/*")
    assert "no cell of 6 matches --cell none/*" in capsys.readouterr().err


def test_every_format_names_the_violation(check, capsys):
    words = [f"--format={name}" for name in check_expectations.FORMATS]
    assert check({"*": "ok"}, *words, "--format", "junit=junit.xml") == 1
    said = capsys.readouterr().out
    assert f"{VULKAN}: expected ok, found error compile bufferization: what\n" in said
    assert f"::error title={VULKAN}::expected ok, found error" in said
    assert said.count(f"| {VULKAN} |  ok | error compile bufferization | what |") == 2
    (suite,) = ElementTree.fromstring(Path("junit.xml").read_bytes())
    assert (suite.get("tests"), suite.get("failures"), len(suite)) == ("6", "1", 6)
    assert [test.get("name") for test in suite if len(test)] == [VULKAN]


FILE = """\
# What is promised.
expect:
    # All of it compiles.
    "*/*/llvm-cpu":  # the CPU
        status: [ok]
        at_most: {dispatch_count: 0, compile_s: 0.001}
    conv/mlir/vulkan: {status: error, stage: export, reason: x}  # known
    'conv/eager/eval': error
    tiny/mlir/llvm-cpu:
        status: ok
        at_most:
            dispatch_count: 99   # fewer would be better
            compile_s: 99
"""


def test_what_was_found_is_written_and_the_rest_of_the_file_stays(check, found, capsys):
    for name in (CPU, "tiny/mlir/llvm-cpu"):
        row(found, name)["compile"] |= {"dispatch_count": 3, "compile_s": 2.0}
    assert check(FILE, "--update") == 0
    text = Path("gate.yaml").read_text()
    lines = text.splitlines()
    kept = [line for line in FILE.splitlines() if "vulkan" not in line and "error" not in line]  # fmt: skip
    assert [line for line in kept if line not in lines] == []
    assert (
        "    conv/mlir/vulkan: {status: error, stage: compile, reason: bufferization} # known"
        in lines
    )
    assert "    'conv/eager/eval': ok" in lines
    # Nothing that is met becomes stricter.
    assert "            dispatch_count: 99   # fewer would be better" in lines
    added = yaml.safe_load(text)["expect"][CPU]
    assert added == {"status": ["ok"], "at_most": {"dispatch_count": 3, "compile_s": 3.0}}
    said = capsys.readouterr().out
    assert "\n-    'conv/eager/eval': error\n" in said
    assert "\n+    'conv/eager/eval': ok\n" in said
    assert said.count("\n-") == 2
    assert check(text) == 0
    assert check(text, "--update") == 0
    assert "gate.yaml: nothing to change" in capsys.readouterr().out
    assert Path("gate.yaml").read_text() == text


@pytest.mark.parametrize(
    ("name", "wanted", "updated"),
    [
        (VULKAN, {"status": ["ok", "error"], "as_asked": False}, {"status": ["ok", "error"], "as_asked": True}),
        (VULKAN, {"status": ["ok", "unavailable"], "as_asked": True}, {"status": ["ok", "unavailable", "error"], "as_asked": True}),
        (VULKAN, {"status": "error", "stage": ["export", "verify"]}, {"status": "error", "stage": ["export", "verify", "compile"]}),
        (VULKAN, {"status": "error", "reason": "stack"}, {"status": "error", "reason": "bufferization"}),
        (VULKAN, {"status": "ok", "as_asked": True}, {"status": "error", "stage": "compile", "reason": "bufferization", "as_asked": True}),
        (CPU, {"status": "error", "stage": "compile"}, "ok"),
        (CPU, {"status": ["ok"], "verdict": ["faster", "same"]}, {"status": ["ok"], "verdict": ["faster", "same", "slower"]}),
        (CPU, {"status": "ok", "verdict": "faster", "at_most": {"dispatch_count": 90}}, {"status": "ok", "verdict": "slower", "at_most": {"dispatch_count": 90}}),
    ],
)  # fmt: skip
def test_an_update_changes_what_is_violated_and_makes_nothing_stricter(
    found, name, wanted, updated
):
    row(found, CPU)["latency"]["verdict"] = "slower"
    text, _ = check_expectations.updated(yaml.safe_dump({"expect": {name: wanted}}), found)
    assert yaml.safe_load(text)["expect"] == {name: updated}
    assert violated(found, {name: updated}) == ([], 1)


def test_an_update_that_says_nothing_is_refused(check, found, capsys):
    text = "expect: {conv/eager/eval: {status: ok, verdict: faster}}\n"
    with pytest.raises(SystemExit):
        check(text, "--update")
    assert "conv/eager/eval: expected verdict faster, found none" in capsys.readouterr().err
    assert Path("gate.yaml").read_text() == text


def test_what_was_found_printed_as_configuration_is_what_is_then_expected(check, capsys):
    assert check({}, "--as-config") == 0
    expect = yaml.safe_load(capsys.readouterr().out)["expect"]
    assert len(expect) == 6
    assert check(expect) == 0


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


def test_what_has_a_largest_value_is_a_column():
    assert set(AtMost.__annotations__) <= {column.column for column in COLUMNS}


def test_markdown_is_cut_at_a_line_and_says_so():
    text = "".join(f"| {number} é |\n" for number in range(1000))
    assert ci_formats.cut(text, 100_000) == text
    cut = ci_formats.cut(text, 2000)
    assert len(cut.encode()) <= 2000
    *lines, _, note, end = cut.split("\n")
    assert text.startswith("\n".join(lines))
    assert (note, end) == (f"*The rest of {1000 - len(lines)} lines is left out here. The files of the run have all.*", "")  # fmt: skip
