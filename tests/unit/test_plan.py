"""plan: which statuses to retry, and what the rules are told of a cell."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.lib import fingerprint, outcome
from scripts.lib.outcome import Outcome, Usage
from scripts.lib.plan import Plan, parse_retry, status_path
from scripts.lib.settings import ConfigError


@pytest.mark.parametrize(
    ("wanted", "statuses"),
    [
        (None, set()),
        ("", set()),
        ("timeout", {"timeout"}),
        ("timeout, oom", {"timeout", "oom"}),
        ("all", {"all"}),
        ("un*", {"unsupported", "unavailable"}),
    ],
)
def test_retry_takes_statuses_and_globs(wanted, statuses):
    assert parse_retry(wanted) == statuses


def test_retry_of_no_status_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="unknown retry status 'timout'; did you mean 'timeout'"):
        parse_retry("timout")


@pytest.fixture
def plan(results):
    return Plan(results.matrix, frozenset(), with_conda=False)


def test_the_aggregate_is_made_of_every_cell_and_every_baseline(plan, results):
    results.write()
    found = plan.results()
    assert "results/measure/tiny/mlir/vulkan/measurement.json" in found
    assert "results/baseline/conv/eager/status.json" in found
    assert "results/export/tiny/mlir/report.json" in found
    assert "results/compile/tiny/mlir/vulkan/report.json" in found
    assert all(Path(file).exists() for file in found)
    models, frontends, targets, baselines = 2, 1, 2, 1
    exports = models * frontends
    assert len(found) == len(set(found)) == exports + exports * targets * 3 + models * baselines * 2


def test_wildcards_name_entries_of_the_matrix(plan):
    wildcards = SimpleNamespace(model="tiny", frontend="mlir", target="vulkan", baseline="eager")
    assert plan.model(wildcards).suite == "user"
    assert plan.frontend(wildcards).exporter == "torch_mlir"
    assert plan.target(wildcards).device == "vulkan"
    assert plan.baseline(wildcards).device == "cpu"


@pytest.mark.parametrize(("status", "well"), [("ok", True), ("timeout", False), (None, False)])
def test_a_cell_ended_well_only_if_that_is_on_record(plan, status, well):
    if status:
        outcome.write(status_path("compile", "c"), Outcome(status, "compile", "c"), Usage(0, 0))
    assert plan.ended_well("compile", "c") == well


EXPORTER = "scripts.exporters.torch_mlir"


def end(plan: Plan, status: str, stage: str, *more: str, due: str = "", limit=None) -> str:
    """Record how a stage of cell "c" ended under the code of now; returns its due."""
    current = fingerprint.of_stage(stage, plan.modules(stage, *more))
    ended = Outcome(status, stage, "c", fingerprint=current, due=due or current, limit=limit)
    outcome.write(status_path(stage, "c"), ended, Usage(0, 0))
    return ended.due


def again(plan: Plan, *retry: str) -> Plan:
    """The plan of a next run."""
    return Plan(plan.matrix, frozenset(retry), with_conda=False)


def test_a_cell_is_due_under_the_code_of_its_stage_and_exporter(plan):
    assert plan.modules("export", EXPORTER) == ("scripts.export_program", EXPORTER)
    current = plan.due("export", "c")
    assert plan.due("export", "c", EXPORTER) != current
    end(plan, "error", "export")
    assert plan.due("export", "c") == current
    assert plan.due("export", "c", EXPORTER) != current
    assert again(plan, "error").due("export", "c") == f"{current}+1"


@pytest.mark.parametrize(
    ("status", "limit", "forced"),
    [
        ("timeout", 1, False),
        ("timeout", 1.0, False),
        ("timeout", 2, True),
        ("timeout", None, True),
        ("oom", 1, False),
        ("oom", 2, True),
        ("error", 2, False),
    ],
)
def test_a_limit_that_is_another_now_forces_the_cells_that_met_it(plan, status, limit, forced):
    due = end(plan, status, "compile", limit=limit)
    assert plan.due("compile", "c") == (f"{due}+1" if forced else due)
    end(plan, status, "compile", due=plan.due("compile", "c"), limit=1)
    assert again(plan).due("compile", "c") == (f"{due}+1" if forced else due)


@pytest.mark.parametrize("status", outcome.FAILED)
def test_an_environment_that_failed_is_tried_in_every_run(plan, status):
    due = end(plan, status, "env", limit=1)
    assert again(plan).due("env", "c") == f"{due}+1"
    end(plan, status, "env", due=f"{due}+1", limit=1)
    assert again(plan).due("env", "c") == f"{due}+2"


@pytest.mark.parametrize("retry", [(), ("all",), ("ok",)])
def test_an_environment_that_is_made_is_never_made_again_for_a_retry(plan, retry):
    due = end(plan, "ok", "env")
    assert again(plan, *retry).due("env", "c") == due


def test_an_environment_and_its_packages_are_inputs_unless_conda_makes_it(plan):
    assert plan.env_status("iree") == ["results/env/iree/status.json"]
    assert plan.env_packages("iree") == [".venvs/iree/versions.json"]
    conda = Plan(plan.matrix, frozenset(), with_conda=True)
    assert (conda.env_status("iree"), conda.env_packages("iree")) == ([], [])


def test_references_are_made_in_the_environment_that_the_matrix_names(plan):
    assert plan.reference_env() == "torch-mlir"
    other = dataclasses.replace(plan.matrix, reference_env="other")
    assert Plan(other, frozenset(), with_conda=False).reference_env() == "other"
