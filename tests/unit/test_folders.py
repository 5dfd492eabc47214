"""Runs in another folder, as a module of another workflow, and with stop_on. The environments of
the stages are stubs; Snakemake, the rules and the supervisor are real."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from benchmarks import synthetic
from tests.checkouts import Checkout

pytestmark = pytest.mark.full

MODEL = "def get_model(): ...\ndef get_dummy_input(): ...\n"
STAGES = ("make_reference", "export_program", "compile_iree", "verify_iree")
# A stub cannot be forked, and each stage would wait five seconds before it notices.
NOT_FORKED = ("--set-resources", *(f"{stage}:preload=0" for stage in STAGES))
LINE = (*NOT_FORKED, "--cores", "2", "results/latency.csv")


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    """A checkout with stubs for environments, before any run."""
    folder = tmp_path_factory.mktemp("checkout")
    synthetic.make_checkout(folder, synthetic.TARGETS)
    return folder


@pytest.fixture(scope="module")
def ran(shared, tmp_path_factory) -> Checkout:
    """A run in one folder that is started in another folder, with a model file in that folder."""
    typed_in = tmp_path_factory.mktemp("typed")
    (typed_in / "mine.py").write_text(MODEL)
    there = typed_in / "run"
    for name in ("scripts", "models"):  # folders of the user
        (there / name).mkdir(parents=True)
        (there / name / "__init__.py").write_text("raise RuntimeError\n")
    here = Checkout(typed_in)
    here.snakemake(
        *("-s", str(shared / "Snakefile"), "--directory", "run", *LINE),
        *("--config", "file=mine.py", "targets=t0"),
    )
    return Checkout(there)


def test_results_are_where_they_were_asked_for(ran, shared):
    [row] = ran.rows()
    assert (row["model"], row["target"], row["status"]) == ("mine", "t0", "ok")
    assert not (shared / "results/latency.csv").exists()
    assert not (shared / "results/logs").exists()
    assert not (ran.path / ".venvs").exists()
    log = (ran.path / "results/env/iree/log.txt").read_text()
    assert f"{shared}/.venvs/iree is made of these pins already" in log


def test_the_same_line_again_has_nothing_to_do_and_a_lost_environment_is_asked_for(ran, shared):
    line = ("-s", str(shared / "Snakefile"), "results/latency.csv")
    config = ("--config", f"file={ran.path.parent / 'mine.py'}", "targets=t0")
    assert "Nothing to be done" in ran.snakemake("-n", *line, *config).stdout
    mark = shared / ".venvs/iree/made_of.txt"
    text = mark.read_text()
    mark.unlink()
    assert "rule make_env" in ran.snakemake("-n", *line, *config).stdout
    mark.write_text(text)


def test_recorded_commands_run_as_they_stand(ran, tmp_path):
    folder = ran.path / "results/compile/mine/stub/t0"
    recorded = json.loads((folder / "status.json").read_text())["command"]
    (folder / "module.vmfb").unlink()
    subprocess.run(["bash", "-c", recorded], cwd=ran.path, check=True)
    assert (folder / "module.vmfb").is_file()
    assert recorded.startswith("env PYTHONPATH=")


SNAKEFILE = """
configfile: "config.yaml"

module vmfbench:
    snakefile: "{checkout}/Snakefile"
    config: config["vmfbench"]

use rule * from vmfbench as vmfbench_*

rule all:
    default_target: True
    input: "results/latency.csv", "mine.txt"

rule check:
    output: "mine.txt"
    shell: "echo mine > {{output}}"

onstart: vmfbench.start_run()
onsuccess: vmfbench.end_run()
onerror: vmfbench.end_run()
"""


def test_a_module_of_another_workflow(shared, tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(checkout=shared))
    (tmp_path / "models").mkdir()
    (tmp_path / "models/mine.py").write_text(MODEL)
    config = {"file": "models/mine.py", "targets": "t0", "measure": {"generations": 7}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"vmfbench": config, "samples": [1]}))
    profile = str(shared / "workflow/profiles/default")
    mine = Checkout(tmp_path)
    alone = ("--set-resources", *(f"vmfbench_{stage}:preload=0" for stage in STAGES))
    mine.snakemake(*alone, "--cores", "2", "--profile", profile)
    [row] = mine.rows()
    assert (row["model"], row["target"], row["status"]) == ("mine", "t0", "ok")
    assert (tmp_path / "mine.txt").read_text() == "mine\n"
    request = json.loads((tmp_path / "results/time/mine/cpu/eval/request.json").read_text())
    assert request["fields"]["rule"]["generations"] == 7
    again = mine.snakemake("--cores", "2", "--profile", profile)
    assert "Nothing to be done" in again.stdout


def test_under_conda_another_folder_is_refused(shared, tmp_path):
    done = Checkout(tmp_path).snakemake(
        "-s", str(shared / "Snakefile"), "-n", "--sdm", "conda", check=False
    )
    assert done.returncode == 1
    assert f"--sdm conda works in {shared} alone" in done.stdout


@pytest.fixture
def wrong(shared, tmp_path) -> Iterator[Checkout]:
    """A folder for runs in which every reference fails."""
    python = shared / ".venvs/torch-mlir/bin/python"
    text = python.read_text()
    fails = 'case "$*" in *make_reference*) echo "error: no"; exit 1 ;; esac'
    python.write_text(text.replace("\n", f"\n{fails}\n", 1))
    yield Checkout(tmp_path)
    python.write_text(text)


def test_a_gate_ends_a_run_and_the_same_line_goes_on_with_exit_code_1(shared, wrong):
    line = ("-s", str(shared / "Snakefile"), *LINE)
    config = ("--config", "models=m00000", "targets=t1,t2", "stop_on=EAGER_FAILED")
    done = wrong.snakemake(*line, *config, check=False)
    assert done.returncode == 1
    assert "stopping (stop_on): reference m00000: EAGER_FAILED: no" in done.stdout
    assert not (wrong.path / "results/latency.csv").exists()
    assert not list(wrong.path.glob("results/export/**/status.json"))

    done = wrong.snakemake(*line, *config, check=False)
    assert done.returncode == 1
    assert "stop_on=EAGER_FAILED: m00000/stub/t1: EAGER_FAILED, and 1 more" in done.stdout
    assert {row["target"]: row["status"] for row in wrong.rows()} == dict.fromkeys(
        ("t1", "t2"), "error"
    )
    assert "Traceback" not in done.stdout


def test_making_room_is_a_run_of_its_own(ran, shared):
    """This test must be the last one on this run."""
    line = ("-s", str(shared / "Snakefile"))
    config = ("--config", f"file={ran.path.parent / 'mine.py'}", "targets=t0")
    weights = ran.path / "results/reference/mine/weights.irpa"
    assert weights.exists()
    done = ran.snakemake(*line, "clean_weights", *config)
    assert "weights: 3 files and folders deleted" in done.stdout
    assert not weights.exists()
    assert (
        "rule make_reference" in ran.snakemake("-n", *line, "results/latency.csv", *config).stdout
    )


def test_the_page_is_made_once_and_is_in_the_report_of_snakemake(ran, shared):
    given = ("-s", str(shared / "Snakefile"), "--directory", str(ran.path))
    config = ("--config", f"file={ran.path.parent / 'mine.py'}", "targets=t0")
    targets = ("results/report.html", "results/coverage.csv")
    here = Checkout(ran.path.parent)
    here.snakemake(*given, *NOT_FORKED, "--cores", "2", *targets, *config)
    assert (ran.path / "results/report.html").stat().st_size > 500_000
    assert "Nothing to be done" in here.snakemake("-n", *given, *targets, *config).stdout
    here.snakemake(*given, "--report", "run.html", *targets, *config)
    report = (ran.path / "run.html").read_text(encoding="utf-8")
    assert "The whole results as one page" in report  # a caption
    assert '"Latency"' in report  # a category
