"""stages: each stage is declared once, and everything else is derived from the declaration."""

import dataclasses
import re
import sys
import time

import pytest

from scripts.config import sections, settings, stages
from scripts.config.cell import Kind, of_axes
from scripts.config.stages import STAGES, Need, Stage
from scripts.core import atomic
from scripts.results import screen
from scripts.run import fingerprint
from scripts.run.plan import Plan
from scripts.supervise import journal, outcome
from scripts.supervise.outcome import Outcome, Usage
from scripts.tools.report import failed

CELL = of_axes(model="conv", frontend="mlir", target="vulkan")


@pytest.fixture
def polish(monkeypatch):
    """A stage that there is not: after compile, under limits of its own."""
    made_up = Stage(
        "polish",
        Kind.IREE,
        ("scripts.tools.report.failed",),
        env="iree",
        after="compile",
        need=Need(1000, 60, 0),
        wants_device=True,
        skipped="cell",
        aggregated=("best.json",),
    )
    monkeypatch.setitem(STAGES, "polish", made_up)
    monkeypatch.setitem(STAGES, "verify", dataclasses.replace(STAGES["verify"], after="polish"))
    return made_up


def test_a_stage_more_is_in_the_plan(polish, results):
    limits = results.matrix.limits | {"polish": {"timeout_s": 7, "memory_mb": 8}}
    plan = Plan(dataclasses.replace(results.matrix, limits=limits), frozenset(), with_conda=False)
    assert plan.due("polish", CELL) == "1"
    assert fingerprint.of_stage(polish).startswith("1-")
    assert plan.env("polish", CELL) == "iree"
    assert plan.limit("polish") == {"timeout_s": 7, "memory_mb": 8}
    assert plan.skip("polish", CELL) == ""
    assert "results/polish/conv/mlir/vulkan/best.json" in plan.aggregation.results()
    assert [stage.name for stage, _ in stages.of_row(CELL)] == [
        *("reference", "export", "compile", "polish", "verify"),
    ]
    assert polish.pattern("best.json") == "results/polish/{model}/{frontend}/{target}/best.json"


def test_a_stage_more_asks_for_what_it_needs(polish, results):
    limits = results.matrix.limits | {"polish": {"timeout_s": 1e6}}
    plan = Plan(dataclasses.replace(results.matrix, limits=limits), frozenset(), with_conda=False)
    ask = plan.ask("polish", CELL, 1)
    assert (ask.memory_mb, ask.timeout_s, ask.more_time) == (1000, 60, 1)


def test_every_stage_has_an_entry_of_limits():
    assert [*sections.Limits.__annotations__] == [*stages.limits()]
    assert sections.Limits.__optional_keys__ == set(stages.OPTIONAL_LIMITS)


def test_limits_of_what_is_no_stage_are_refused_with_the_stages():
    with pytest.raises(settings.ConfigError) as problem:
        settings.check({"limits": {"compil": {"timeout_s": 1}}})
    assert "limits.compil: unknown key 'compil'; did you mean 'compile'?" in str(problem.value)
    assert "limits: missing env, reference, export, compile, verify, baseline" in str(problem.value)


def test_a_stage_more_is_in_the_account_and_the_table_of_a_run(
    polish, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/logs").mkdir(parents=True)
    path = tmp_path / "results/logs/journal.jsonl"
    journal.begin(path)
    for stage in ("polish", "verify"):
        journal.append(path, {"stage": stage, "start": 0.0, "child_seconds": 3.0})
    screen.show(path, time.time(), {})
    assert re.search(r"polish\W+1\W+3", capsys.readouterr().err)
    rows = [{"status": "error", "stage": "polish", "verification_code": ""}]
    assert [column.header for column in screen.by_status(rows).columns] == [
        "status",
        "polish",
        "all",
    ]


def test_a_stage_more_is_among_those_that_failed(polish, results, monkeypatch, capsys):
    results.write()
    atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
    for name in (CELL.name, "gone/mlir/vulkan"):
        one = Outcome("error", "polish", name, "why", "what")
        outcome.write(stages.status_path("polish", name), one, Usage(0, 0))
    monkeypatch.setattr(sys, "argv", ["failed", "--cell", "*/vulkan"])
    assert failed.main() == 0
    said = capsys.readouterr().out
    assert "polish conv/mlir/vulkan: error (why)" in said
    assert "gone" not in said


def test_stages_of_the_core_are_in_the_order_of_a_run_and_each_is_after_one_that_is_before_it():
    assert stages.folders() == (
        *("env", "reference", "gradients", "export", "compile", "remedy", "verify", "baseline"),
        *("time", "machine_limits", "trace", "operator_reference", "operator_export"),
        *("operator_compile", "operator_verify", "operator_baseline", "operator_time"),
        *("dumps", "profile", "code", "compile_time", "tune", "time_tuned"),
    )
    names = list(STAGES)
    for name, stage in STAGES.items():
        assert not stage.after or names.index(stage.after) < names.index(name)
        assert stage.limits_key in (*STAGES, *stages.OPTIONAL_LIMITS)


def test_an_outcome_is_read_once_until_it_changes(tmp_path, monkeypatch):
    status = tmp_path / "status.json"
    assert fingerprint.recorded_outcome(str(status)) is None
    outcome.write(status, Outcome("ok", "compile", "c"), Usage(0, 0))
    assert fingerprint.recorded_outcome(str(status)).outcome.status == "ok"
    with monkeypatch.context() as patched:
        patched.setattr(outcome, "read", lambda path: pytest.fail(f"{path} is read again"))
        assert fingerprint.recorded_outcome(str(status)).outcome.status == "ok"
    outcome.write(status, Outcome("oom", "compile", "c", "why", "what"), Usage(0, 0))
    assert fingerprint.recorded_outcome(str(status)).outcome.status == "oom"
    status.unlink()
    assert fingerprint.recorded_outcome(str(status)) is None
