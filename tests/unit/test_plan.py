"""plan: which statuses to retry, and what the rules are told of a cell."""

from types import SimpleNamespace

import pytest

from scripts.lib import outcome
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
    assert len(found) == len(set(found)) == 2 * (2 * 1 * 2 + 2)


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


def test_a_cell_is_due_under_the_code_of_its_stage_and_exporter(plan):
    current = plan.fingerprint("export", "c")
    ended = Outcome("timeout", "export", "c", fingerprint=current)
    outcome.write(status_path("export", "c"), ended, Usage(0, 0))
    assert plan.fingerprint("export", "c") == current
    assert plan.fingerprint("export", "c", "scripts.exporters.torch_mlir") != current
    assert Plan(plan.matrix, frozenset({"timeout"}), False).fingerprint("export", "c") == f"{current}+1"  # fmt: skip
