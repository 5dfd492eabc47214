"""patch: each patch fits the installed Snakemake, and reports if it does not."""

import re
from pathlib import Path

import pytest
import snakemake
import snakemake.api
from snakemake.persistence import PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler

from scripts.snakemake import scheduler
from scripts.snakemake.apply import PATCHES
from scripts.snakemake.patch import VERSION, Need, Patch

ROOT = Path(__file__).parents[2]
NEEDS = [need for patch in PATCHES for need in patch.needs]
READ_BY_RULES = {"basedir", "cores", "config_settings", "deployment_settings", "rundir"}
"""Attributes of `workflow` that rules may read; all others go through the package."""


def ids(values) -> list[str]:
    return [getattr(value, "name", None) or value.attribute.split(":")[1] for value in values]


@pytest.mark.parametrize("patch", PATCHES, ids=ids(PATCHES))
def test_a_patch_fits_the_snakemake_that_is_pinned(patch):
    assert patch.problem() == ""


@pytest.mark.parametrize("version", ["9.26.0", "9.28.0", "10.0.0"])
@pytest.mark.parametrize("patch", PATCHES, ids=ids(PATCHES))
def test_a_patch_is_not_for_another_version(patch, version, monkeypatch):
    monkeypatch.setattr(snakemake, "__version__", version)
    assert patch.problem() == f"it is written for Snakemake ==9.27.*, this is {version}"


def test_a_later_patch_release_is_the_same_version(monkeypatch):
    monkeypatch.setattr(snakemake, "__version__", "9.27.9")
    assert not any(patch.problem() for patch in PATCHES)


@pytest.mark.parametrize("need", NEEDS, ids=ids(NEEDS))
def test_a_need_under_another_name_is_missed(need):
    assert Need(need.attribute + "x").problem().endswith("x does not exist")
    assert Need(need.attribute.replace(":", ":X")).problem().endswith("does not exist")
    assert Need("x" + need.attribute).problem().endswith("does not exist")


METHODS = [need for need in NEEDS if need.parameters]


@pytest.mark.parametrize("need", METHODS, ids=ids(METHODS))
def test_a_method_with_other_parameters_is_noticed(need):
    other = Need(need.attribute, "(self, other)")
    assert other.problem().endswith(f"takes {need.parameters}, expected (self, other)")


def test_the_typo_repaired_upstream_is_noticed(monkeypatch):
    method = JobScheduler._schedule_reevalutation
    monkeypatch.delattr(JobScheduler, "_schedule_reevalutation")
    monkeypatch.setattr(JobScheduler, "_schedule_reevaluation", method, raising=False)
    problem = scheduler.ONE_TIMER.problem()
    assert problem == "JobScheduler._schedule_reevalutation does not exist"


def test_a_method_that_is_gone_is_noticed(monkeypatch):
    monkeypatch.delattr(PersistenceBase, "finished")
    problems = [p.problem() for p in PATCHES if p.problem()]
    assert problems == ["PersistenceBase.finished does not exist"]


def rows_of(patch: Patch) -> tuple[str, ...]:
    stops = "a run on a cluster stops: " if patch.runs == "cluster" else ""
    return patch.name, patch.replaces, f"`{VERSION}`", f"{stops}{patch.without}"


def test_the_architecture_has_every_patch_in_its_table():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.split("\n## Snakemake's internals\n")[1].split("\n## ")[0]
    table = section.split("\n\n| patch |")[1].split("\n\n")[0]
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split(" | "))
        for line in table.splitlines()[2:]
    ]
    assert rows == [rows_of(patch) for patch in PATCHES]


@pytest.mark.parametrize("file", [ROOT / "Snakefile", *ROOT.glob("workflow/rules/*.smk")], ids=lambda f: f.name)  # fmt: skip
def test_rules_leave_snakemakes_internals_to_the_package(file):
    # Not a file named workflow.rst.
    used = set(re.findall(r"(?<![/\w])workflow\.(\w+)", file.read_text(encoding="utf-8")))
    assert used <= READ_BY_RULES
