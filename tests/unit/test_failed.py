"""failed: the stages that failed by their own fault, each with the command that repeats it."""

import dataclasses
import sys

import pytest

from scripts import failed
from scripts.lib import atomic


@pytest.fixture
def listed(results, ended, monkeypatch, capsys):
    endings = {
        **ended("unsupported", "export", "conv/mlir"),
        **ended("timeout", "compile", "tiny/mlir/vulkan"),
        **ended("unavailable", "measure", "tiny/mlir/llvm-cpu"),
        **ended("oom", "baseline", "tiny/eager"),
    }
    results.write(endings)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["failed", *arguments])
        assert failed.main() == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("arguments", "stages"),
    [
        ([], {"export conv/mlir", "compile tiny/mlir/vulkan", "baseline tiny/eager"}),
        (["--stage", "compile"], {"compile tiny/mlir/vulkan"}),
        (["--status", "o*"], {"baseline tiny/eager"}),
        (["--cell", "tiny/*"], {"compile tiny/mlir/vulkan", "baseline tiny/eager"}),
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
        "    repeat: python -m scripts.export",
    ]


def test_commands_are_printed_alone_for_a_shell(listed):
    assert listed("--commands", "--stage", "export") == "python -m scripts.export\n"


def test_with_no_results_nothing_has_failed(tmp_path):
    assert failed.failures(tmp_path / "none") == []


def test_what_the_configuration_no_longer_has_is_not_listed(listed, results):
    smaller = dataclasses.replace(
        results.matrix, targets={"llvm-cpu": results.matrix.targets["llvm-cpu"]}, baselines={}
    )
    atomic.write_json("results/logs/matrix.json", smaller.to_json())
    said = listed()
    assert "export conv/mlir" in said
    assert "vulkan" not in said
    assert "eager" not in said
