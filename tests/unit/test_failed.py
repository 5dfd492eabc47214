"""failed: the stages that failed themselves, each with the command that repeats it."""

import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.config.stages import status_path
from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, ProblemEnd, Usage
from scripts.tools.operators.operators_plan import Operators
from scripts.tools.report import failed


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs `vmfbench failed`; returns what it prints."""

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["failed", *arguments])
        assert failed.main() == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def listed(results, ended, run):
    """The same, with four failures that the configuration has."""
    endings = {
        **ended("unsupported", "export", "conv/mlir"),
        **ended("timeout", "compile", "tiny/mlir/vulkan"),
        **ended("unavailable", "verify", "tiny/mlir/llvm-cpu"),
        **ended("oom", "baseline", "tiny/eager/eval"),
    }
    results.write(endings)
    return run


@pytest.mark.parametrize(
    ("arguments", "stages"),
    [
        ([], {"export conv/mlir", "compile tiny/mlir/vulkan", "baseline tiny/eager/eval"}),
        (["--stage", "compile"], {"compile tiny/mlir/vulkan"}),
        (["--status", "o*"], {"baseline tiny/eager/eval"}),
        (["--cell", "tiny/*"], {"compile tiny/mlir/vulkan", "baseline tiny/eager/eval"}),
        (["--stage", "env"], set()),
    ],
)
def test_failures_are_listed_once_and_neither_what_they_block_nor_missing_devices(
    listed, arguments, stages
):
    said = listed(*arguments)
    heads = [line for line in said.splitlines()[:-1] if line and line[0] != " "]
    assert {line.split(":")[0] for line in heads} == stages
    assert len(heads) == len(stages)
    assert said.splitlines()[-1] == f"{len(stages)} failed stages"


def test_a_failure_is_shown_with_reason_detail_log_and_command(listed):
    assert listed("--stage", "export").splitlines()[:4] == [
        "export conv/mlir: unsupported (why)",
        "    what",
        "    log:    results/export/conv/mlir/log.txt",
        "    repeat: python -m scripts.stages.export",
    ]
    assert listed("--commands", "--stage", "export") == "python -m scripts.stages.export\n"


def test_failures_are_a_list_of_objects_for_programs(listed):
    [one] = json.loads(listed("--json", "--stage", "compile"))
    assert one == {
        "stage": "compile",
        "cell": "tiny/mlir/vulkan",
        "status": "timeout",
        "reason": "why",
        "detail": "what",
        "log": "results/compile/tiny/mlir/vulkan/log.txt",
        "fingerprint": "c0de",
        "repeat": "python -m scripts.stages.compile",
        "remedy": "",
        "tried": "",
    }
    assert json.loads(listed("--json", "--cell", "none")) == []


def test_a_repeated_stage_runs_as_it_was_asked_for_and_leaves_the_artifacts_alone(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("stage.py").write_text(
        "import pathlib, sys\n"
        "request = pathlib.Path(sys.argv[2])\n"
        "request.with_name('module.vmfb').write_text('again: ' + request.read_text())\n"
    )
    own = Path("results/compile/m/f/it's")
    own.mkdir(parents=True)
    (own / "module.vmfb").write_text("made")
    (own / "request.json").write_text("asked")
    command = shlex.join(StageRequest("stage", sys.executable, {}).command(own))
    one = Outcome("error", "compile", "m/f/it's", command=command)
    subprocess.run(["bash", "-c", failed.repeat(one)], check=True)
    assert (own / "module.vmfb").read_text() == "made"
    assert Path("results/repeat/compile/m/f/it's/module.vmfb").read_text() == "again: asked"


def test_what_has_no_command_has_none_to_repeat(listed):
    Path(status_path("verify", "conv/mlir/llvm-cpu")).write_text("{")
    assert listed("--commands", "--status", "damaged") == ""


def test_with_no_results_nothing_has_failed(tmp_path):
    assert failed.failures(tmp_path / "none", None) == []


def test_what_the_configuration_no_longer_has_is_not_listed(listed, results):
    smaller = dataclasses.replace(
        results.matrix, targets={"llvm-cpu": results.matrix.targets["llvm-cpu"]}, baselines={}
    )
    atomic.write_json("results/logs/matrix.json", smaller.to_json())
    said = listed()
    assert "export conv/mlir" in said
    assert "vulkan" not in said
    assert "eager" not in said


def test_of_a_baseline_only_the_tests_that_the_configuration_has_are_listed(results, ended, run):
    results.matrix = dataclasses.replace(results.matrix, tests=("eval", "train"))
    results.write({
        **ended("oom", "gradients", "conv"),
        **ended("timeout", "baseline", "tiny/eager/train"),
        **ended("error", "baseline", "tiny/eager/eval"),
    })  # fmt: skip
    for tests, heads in [
        (("eval", "train"), ["tiny/eager/eval", "tiny/eager/train", "gradients conv"]),
        (("train",), ["tiny/eager/train", "gradients conv"]),
        (("eval",), ["tiny/eager/eval", "gradients conv"]),
    ]:
        matrix = dataclasses.replace(results.matrix, tests=tests)
        atomic.write_json("results/logs/matrix.json", matrix.to_json())
        said = [line for line in run().splitlines()[:-1] if line[:1].strip()]
        assert [line.split(":")[0].removeprefix("baseline ") for line in said] == heads


def test_a_dump_that_failed_is_listed_and_found_by_the_name_of_its_row_too(results, ended, run):
    results.write()
    for cell in ("conv/eager/eval", "tiny/iree/mlir/vulkan"):
        [failure] = ended("error", "dumps", cell).values()
        outcome.write(status_path("dumps", cell), failure, Usage(0, 0))
    atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
    assert run().count("dumps ") == 2
    for glob, count in [("tiny/mlir/vulkan", 1), ("tiny/iree/*", 1), ("conv/mlir/*", 0)]:
        assert run("--cell", glob).splitlines()[-1] == f"{count} failed stages"


def test_a_failure_of_a_stage_that_there_is_no_longer_is_listed_all_the_same(
    tmp_path, ended, monkeypatch, run
):
    monkeypatch.chdir(tmp_path)
    [failure] = ended("error", "lower", "conv").values()
    outcome.write(status_path("lower", "conv"), failure, Usage(0, 0))
    assert "lower conv: error" in run("--cell", "conv")


def test_a_row_that_left_its_group_is_listed_with_its_own_log_and_the_command_of_the_group(
    results, ended, run
):
    results.write(ended("crashed", "time", "conv/mlir/llvm-cpu", "SIGSEGV"))
    atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
    assert run("--cell", "conv/eager/*") == "0 failed stages\n"
    assert run("--cell", "conv/mlir/*").splitlines() == [
        "time conv/mlir/llvm-cpu: crashed (SIGSEGV)",
        "    what",
        "    log:    results/time/conv/cpu/eval/members/conv_mlir_llvm-cpu.txt",
        "    repeat: python -m scripts.stages.time_group",
        "",
        "1 failed stages",
    ]


def test_a_row_that_left_the_group_of_a_problem_is_listed(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    own = "results/operator_time/0/cpu"
    ended = Outcome("ok", "operator_time", "0/cpu", log=f"{own}/log.txt", command="time")
    outcome.write(f"{own}/status.json", ended, Usage(0, 0))
    left = {"status": "crashed", "reason": "SIGSEGV", "detail": "what"}
    timing = {"members": {"0/mlir/llvm-cpu": left, "0/eager": {"status": "ok"}}}
    of_problem = dataclasses.replace(ended, cell="0/cpu: a")
    lines = [ProblemEnd("a", of_problem, 1.0, {"timing": timing})]
    outcome.write_problem_ends(Path(own, "outcomes.jsonl"), lines)
    said = run().splitlines()
    assert said[0] == "operator_time 0/mlir/llvm-cpu: a: crashed (SIGSEGV)"
    assert said[2] == f"    log:    {own}/members/0_mlir_llvm-cpu.txt"
    assert said[-1] == "1 failed stages"


def test_a_group_that_could_not_be_timed_is_listed(results, ended, run):
    results.write(ended("timeout", "time", "conv/cpu/eval", "time-limit"))
    atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
    said = run("--stage", "time").splitlines()
    assert (said[0], said[-1]) == ("time conv/cpu/eval: timeout (time-limit)", "1 failed stages")


def test_a_status_that_cannot_be_read_is_listed_as_damaged(listed):
    path = Path(status_path("verify", "conv/mlir/llvm-cpu"))
    path.write_text('{"status": "o')
    said = listed("--status", "damaged").splitlines()
    assert said[0] == "verify conv/mlir/llvm-cpu: damaged (damaged-file)"
    assert str(path) in said[1]
    assert said[-1] == "1 failed stages"


def test_a_problem_of_a_batch_is_listed_with_a_command_that_reads_its_own_task(results, run):
    operators = Operators(
        frontends=results.matrix.frontends, targets=results.matrix.targets, baselines={}
    )
    results.matrix = dataclasses.replace(results.matrix, parts={"operators": operators})
    atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
    own = "results/operator_export/0/mlir"
    asked = f"{own}/tasks/x/request.json"
    command = f"python -m scripts.tools.operators.export_operators --request {asked}"
    ended = [
        Outcome("ok", "operator_export", "0/mlir: a"),
        Outcome("error", "operator_export", "0/mlir: b", "why", "what", command=command),
        Outcome("skipped", "operator_export", "0/mlir: c", "why", "what"),
    ]
    outcome.write(f"{own}/status.json", Outcome("ok", "operator_export", "0/mlir"), Usage(0, 0))
    lines = [ProblemEnd(one.cell[-1], one) for one in ended]
    outcome.write_problem_ends(Path(own, "outcomes.jsonl"), lines)
    said = run("--cell", "0/*")
    assert said.startswith("operator_export 0/mlir: b: error (why)\n")
    assert said.splitlines()[-1] == "1 failed stages"
    folder = "results/repeat/operator_export/0/mlir/tasks/x"
    assert (
        f"mkdir -p {folder} && cp {asked} {folder} && "
        f"python -m scripts.tools.operators.export_operators --request {folder}/request.json"
    ) in said
