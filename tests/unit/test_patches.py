"""patch: patches fit the pinned Snakemake, and are not applied to another one."""

import dis
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake
import snakemake.api
from snakemake.dag import DAG
from snakemake.persistence import PersistenceBase
from snakemake.scheduling.job_scheduler import JobRateLimiter, JobScheduler
from snakemake.workflow import Workflow
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.registry.plugin import Plugin

from scripts.config.cell import of_axes
from scripts.run.snakemake import apply

ROOT = Path(__file__).parents[2]
READ_BY_RULES = {"basedir", "cores", "config_settings", "deployment_settings", "rundir"}
"""Attributes of `workflow` that rules may read; all others go through the package."""
METHODS = {
    (JobScheduler, "_schedule_reevalutation"): "(self, delay)",
    (Workflow, "register_resource"): "(self, name, value)",
    (DAG, "needrun_jobs"): "(self, exclude_finished=True)",
    (PersistenceBase, "finished"): "(self, job)",
    (RemoteExecutor, "__post_init__"): "(self)",
    (RemoteExecutor, "run_jobs"): "(self, jobs)",
    (RemoteExecutor, "check_active_jobs"): "(self, active_jobs)",
    (RemoteExecutor, "report_job_submission"): "(self, job_info, register_job=True)",
    (RemoteExecutor, "report_job_success"): "(self, job_info)",
    (RemoteExecutor, "report_job_error"): "(self, job_info, msg=None, **kwargs)",
}
"""Undocumented methods that the patches replace or call."""
ATTRIBUTES = {
    JobScheduler: ["job_rate_limiter", "_open_jobs", "_user_kill", "_job_selector", "running"],
    JobRateLimiter: ["_jobs"],
    Workflow: ["remote_exec", "parent_groupids", "global_resources", "dag"],
    Plugin: ["executor", "common_settings"],
    RemoteExecutor: ["cores"],
}
"""Undocumented attributes that the patches read or write."""


@pytest.mark.parametrize(("method", "parameters"), METHODS.items(), ids=lambda of: str(of[-1]))
def test_the_methods_that_patches_use_are_there(method, parameters):
    signature = inspect.signature(getattr(*method))
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == parameters


@pytest.mark.parametrize(("owner", "names"), ATTRIBUTES.items(), ids=lambda of: str(of))
def test_the_attributes_that_patches_use_are_there(owner, names):
    """In the class, or set by a constructor."""
    constructors = [vars(base).get(name) for base in owner.__mro__ for name in ("__init__", "__post_init__")]  # fmt: skip
    stored = {
        instruction.argval
        for code in filter(None, (getattr(one, "__code__", None) for one in constructors))
        for instruction in dis.get_instructions(code)
        if instruction.opname == "STORE_ATTR"
    }
    assert [name for name in names if not (hasattr(owner, name) or name in stored)] == []


@pytest.mark.parametrize("version", ["9.26.0", "9.28.0", "10.0.0"])
def test_patches_are_not_for_another_version(version, monkeypatch):
    monkeypatch.setattr(snakemake, "__version__", version)
    assert apply.problem() == f"it is written for Snakemake ==9.27.*, this is {version}"


@pytest.mark.parametrize("version", [snakemake.__version__, "9.27.9"])
def test_patches_are_for_the_pinned_version_and_its_patch_releases(version, monkeypatch):
    monkeypatch.setattr(snakemake, "__version__", version)
    assert apply.problem() == ""


@pytest.mark.parametrize("file", [ROOT / "Snakefile", *ROOT.glob("workflow/rules/*.smk")], ids=lambda f: f.name)  # fmt: skip
def test_rules_leave_snakemakes_internals_to_the_package(file):
    # Not a file named workflow.rst.
    used = set(re.findall(r"(?<![/\w])workflow\.(\w+)", file.read_text(encoding="utf-8")))
    assert used <= READ_BY_RULES


def test_the_idle_jobs_of_a_run_are_those_of_its_plan_and_jobs_without_a_cell_are_passed_over():
    def job(rule: str, **wildcards: str) -> SimpleNamespace:
        return SimpleNamespace(rule=SimpleNamespace(name=rule), wildcards=wildcards)

    gpu = of_axes(model="conv", frontend="mlir", target="cuda")
    planned = [
        job("aggregate_results"),
        job("verify_iree", model="conv", frontend="mlir", target="cuda"),
        job("verify_iree", model="conv", frontend="mlir", target="llvm-cpu"),
        job("compile_iree", model="conv", frontend="mlir", target="cuda"),
    ]
    patches = apply.Patches.__new__(apply.Patches)
    patches._problem = ""
    patches._workflow = SimpleNamespace(dag=SimpleNamespace(needrun_jobs=lambda: planned))
    assert [*patches.jobs_in({("verify_iree", gpu)})] == ["verify_iree"]
