"""What `snakemake` says at the command line before any work starts (dry runs: seconds)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


# Answers what Snakemake asks conda in a dry run, and refuses anything else.
FAKE_CONDA = """#!/bin/sh
case "$*" in
  --version) echo conda 25.1.0 ;;
  "info --json") echo '{"conda_prefix": "/nowhere", "platform": "linux-64"}' ;;
  config*) echo '{"get": {"channel_priority": "strict"}}' ;;
  *) exit 9 ;;
esac
"""


def snakemake(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess:
    """Run snakemake in this checkout, with `path` first on PATH."""
    search = os.environ["PATH"] if path is None else f"{path}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | {"PATH": search},
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("models=resnt", "unknown model 'resnt'; did you mean 'resnet'?"),
        ("frontends=torchmlir-torhc", "did you mean 'torchmlir-torch'?"),
        ("targets=metal*", "unknown target 'metal*'; there are: cuda, llvm-cpu, rocm, vulkan"),
        ("retry=timeot", "did you mean 'timeout'?"),
        ("modles=conv", "modles: unknown key 'modles'; did you mean 'models'?"),
        ("measure={repetitions: none}", 'measure.repetitions: found "none", allowed is'),
    ],
)
def test_bad_input_stops_before_anything_runs(config, message):
    done = snakemake("--cores", "2", "results/latency.csv", "--config", config)
    assert done.returncode == 1
    assert message in done.stdout
    assert "Job stats" not in done.stdout


def test_globs_and_lists_select_a_part_of_the_matrix():
    done = snakemake(
        *("-n", "--quiet", "rules", "--forceall", "results/latency.csv", "--config"),
        *("models=resnet,conv", "frontends=torchmlir-*o*", "targets=llvm-cpu", "baselines=eager"),
    )
    assert done.returncode == 0, done.stdout
    counts = dict(
        line.split() for line in done.stdout.splitlines() if len(line.split()) == 2 and line.split()[1].isdigit()
    )  # fmt: skip
    assert counts["make_reference"] == "2"
    assert counts["compile_iree"] == counts["export_program"] == "4"
    assert counts["measure_baseline"] == "2"


def test_the_workflow_is_lint_clean():
    done = snakemake("--lint")
    assert done.returncode == 0, done.stdout
    assert "Congratulations" in done.stdout


def test_under_conda_every_rule_names_its_env_file_and_uv_makes_none(tmp_path):
    conda = tmp_path / "conda"
    conda.write_text(FAKE_CONDA)
    conda.chmod(0o755)
    done = snakemake(
        *("-n", "--forceall", "results/latency.csv", "--config", "models=conv"),
        *("--sdm", "conda"),
        path=tmp_path,
    )
    assert done.returncode == 0, done.stdout
    assert "rule make_env" not in done.stdout
    for env in ("torch-mlir", "iree", "report"):
        assert f"Conda environment envs/{env}.yaml will be created" in done.stdout, done.stdout
