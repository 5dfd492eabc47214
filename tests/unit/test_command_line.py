"""What `snakemake` says at the command line before any work starts (dry runs: seconds)."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.checkouts import DRIVER, ROOT, run_module

pytestmark = pytest.mark.full


# Answers what Snakemake asks conda, "makes" an environment (a folder), and refuses anything else.
FAKE_CONDA = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
  --version) echo conda 25.1.0 ;;
  "info --json") echo "{\\"conda_prefix\\": \\"$here\\", \\"platform\\": \\"linux-64\\"}" ;;
  config*) echo '{"get": {"channel_priority": "strict"}}' ;;
  "clean -y --tarballs") ;;
  "env create"*) for last; do :; done; mkdir -p "$last" ;;
  *) exit 9 ;;
esac
"""
# What `source <conda>/bin/activate <env>` does: the environment's programs come first.
FAKE_ACTIVATE = 'PATH="$(dirname "$BASH_SOURCE")/../of_env:$PATH"\n'
FAKE_PYTHON = '#!/bin/sh\necho "$(pwd): $*" >> "$(dirname "$0")/calls"\n'


def snakemake(
    *arguments: str, path: Path | None = None, directory: Path = ROOT
) -> subprocess.CompletedProcess:
    """Run snakemake in this checkout or another, with `path` first on PATH."""
    search = os.environ["PATH"] if path is None else f"{path}{os.pathsep}{os.environ['PATH']}"
    return run_module(DRIVER, "snakemake", *arguments, cwd=directory, variables={"PATH": search}, merged=True)  # fmt: skip


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("models=resnt", "unknown model 'resnt'; did you mean 'resnet'?"),
        ("modles=conv", "modles: unknown key 'modles'; did you mean 'models'?"),
        ("retry=timeot", "did you mean 'timeout'?"),
        ("stop_on=FAILED", "unknown stop_on 'FAILED'; did you mean 'FAIL'?"),
    ],
)
def test_bad_input_stops_before_anything_runs(config, message):
    done = snakemake("--cores", "2", "results/latency.csv", "--config", config)
    assert done.returncode == 1
    assert message in done.stdout
    assert "Job stats" not in done.stdout


def test_a_config_yaml_that_is_no_yaml_is_named_with_its_line(tmp_path):
    for path in ROOT.iterdir():
        if path.name in ("Snakefile", "workflow", "scripts", "models", "envs", "profiles"):
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "config.yaml").write_text("models: {}\ntargets: x: y\n")
    done = snakemake("-n", directory=tmp_path)
    assert done.returncode == 1
    assert "config.yaml, line 2, column 11: no YAML: mapping values are not" in done.stdout


def test_values_of_a_run_on_this_machine_are_those_that_a_cluster_s_functions_give():
    """With `--jobs`, jobs may go to a cluster, and limits and threads are functions."""
    here, perhaps = commands("--cores", "2"), commands("--cores", "2", "--jobs", "2")
    assert len(here) == 10
    more = " --more-time 0 --more-memory 0"
    assert [command.replace(more, "") for command in perhaps] == here != perhaps


def test_resources_of_the_command_line_win_over_the_limits_of_the_configuration():
    found = commands("--set-resources", "verify_iree:timeout_s=7")
    limited = [command for command in found if " --timeout 7 " in command]
    assert len(limited) == 1
    assert "--run scripts.stages.verify_iree" in limited[0]


def commands(*options: str) -> list[str]:
    """The commands of a model's stages in a dry run, without the process that they belong to."""
    part = ("models=conv", "targets=llvm-cpu", "frontends=torchmlir-torch", "baselines=eager")
    done = snakemake(
        *("-n", "-p", "--forceall", "results/latency.csv", *options, "--config", *part)
    )
    assert done.returncode == 0, done.stdout
    found = [line for line in done.stdout.splitlines() if "-m scripts.stages.supervise" in line]
    return sorted(re.sub(r"--owner \d+", "", line) for line in found)


def test_every_rule_says_what_it_is_for():
    """`snakemake --list-target-rules` lists the rules without wildcards."""
    for option in ("--list-rules", "--list-target-rules"):
        done = snakemake(option)
        assert done.returncode == 0, done.stdout
        said = dict(re.findall(r"^(\w+) \((\S.*)\)$", done.stdout, re.MULTILINE))
        lines = [line for line in done.stdout.splitlines() if re.match(r"[a-z]\w+( |$)", line)]
        assert len(said) == len(lines) == len(set(said.values())), done.stdout
    menu = """all aggregate_results aggregate_cpu check coverage report_coverage dumps traces profile code compile_time
        select_operators aggregate_operators kernels aggregate_kernels aggregate_tuned machine_limits report write_report
        clean_dumps clean_weights clean_envs start_fuzz aggregate_fuzz"""
    assert said.keys() == {*menu.split()}


def test_tuning_results_are_not_used_where_jobs_may_go_to_a_cluster(tmp_path):
    overlay = tmp_path / "tuned.yaml"
    overlay.write_text("{targets: {llvm-cpu: {tuned: auto}}}")
    line = ("-n", "results/latency.csv", "--configfile", str(overlay), "--config", "models=conv")
    done = snakemake("--cores", "2", "--jobs", "2", *line)
    assert done.returncode != 0
    assert "targets.llvm-cpu.tuned: auto is for runs on one machine" in done.stdout


def test_the_snakefile_of_the_workflow_catalog_is_the_same_workflow():
    line = ("-n", "results/latency.csv", "--config", "models=conv", "targets=llvm-cpu")
    done = snakemake("--snakefile", "workflow/Snakefile", *line)
    assert done.returncode == 0, done.stdout
    assert "rule time_group" in done.stdout


def test_the_workflow_is_lint_clean():
    done = snakemake("--lint")
    assert done.returncode == 0, done.stdout
    assert "Congratulations" in done.stdout


def test_the_graph_of_the_architecture_is_that_of_the_default_run(tmp_path):
    folder = ("--directory", str(tmp_path))  # where nothing is made yet
    shown = snakemake("--rulegraph", "mermaid-js", *folder, "results/latency.csv").stdout
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", shown))
    needs = {name: set[str]() for name in names.values()}
    for first, then in re.findall(r"(id\d+) --> (id\d+)", shown):
        needs[names[then]].add(names[first])

    def before(rule: str) -> set[str]:
        return needs[rule].union(*map(before, needs[rule]))

    direct = {(first, rule) for rule in needs for first in needs[rule] if not any(first in before(other) for other in needs[rule])}  # fmt: skip
    graph = (
        (ROOT / "docs/architecture.md")
        .read_text()
        .partition("flowchart LR\n")[2]
        .partition("```")[0]
    )
    chains = [line.split(" --> ") for line in graph.strip().splitlines()]
    drawn = {pair for chain in chains for pair in itertools.pairwise(map(str.strip, chain))}
    assert drawn == direct


@pytest.fixture
def conda(tmp_path) -> Path:
    """A folder with a stand-in for conda; `of_env/calls` is what was run in an environment."""
    for file, text in {
        "conda": FAKE_CONDA,
        "bin/activate": FAKE_ACTIVATE,
        "of_env/python": FAKE_PYTHON,
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
        (tmp_path / file).chmod(0o755)
    return tmp_path


def test_under_conda_every_rule_names_its_env_file_and_uv_makes_none(conda):
    done = snakemake(
        *("-n", "--forceall", "results/latency.csv", "--config", "models=conv"),
        *("--sdm", "conda"),
        path=conda,
    )
    assert done.returncode == 0, done.stdout
    assert "rule make_env" not in done.stdout
    for env in ("torch-mlir", "torch-xla", "iree", "report"):
        assert f"Conda environment envs/{env}.yaml will be created" in done.stdout, done.stdout


def test_under_conda_snakemake_installs_the_lock_in_each_environment_that_it_makes(conda):
    done = snakemake(
        *("--cores", "1", "results/latency.csv", "--forceall", "--sdm", "conda"),
        *("--conda-create-envs-only", "--conda-prefix", str(conda / "envs")),
        *("--config", "models=conv", "targets=llvm-cpu", "baselines=eager"),
        *("frontends=torchmlir-torch",),
        path=conda,
    )
    assert done.returncode == 0, done.stdout
    install = "-m pip install --no-deps --require-hashes --force-reinstall -r envs"
    calls = (conda / "of_env/calls").read_text().splitlines()
    assert sorted(calls) == [
        f"{ROOT}: {install}/{env}.lock" for env in ("iree", "report", "torch-mlir")
    ]
