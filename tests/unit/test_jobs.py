"""jobs: what rules share is plain values on one machine, and functions of a job where jobs may go to a cluster."""

import dataclasses
from dataclasses import dataclass, field

import pytest

from scripts.config.cell import of_axes
from scripts.run import resources
from scripts.run.jobs import BUILDING, Jobs
from scripts.run.plan import Plan


@dataclass
class Where:
    may_submit: bool = False
    submits: bool = False
    on_node: bool = False
    groups: dict[str, str] = field(default_factory=dict)

    def name_group(self, group: str, known_as: str) -> None:
        self.groups[group] = known_as


WILDCARDS = {"model": "conv", "frontend": "mlir", "target": "vulkan"}


@pytest.fixture
def plan(results) -> Plan:
    targets = dict(results.matrix.targets)
    targets["vulkan"] = dataclasses.replace(targets["vulkan"], node="gpu")
    nodes = {"gpu": {"gres": "gpu:1", "slurm_partition": "big"}, "cpu": {"slurm_partition": "all"}}
    matrix = dataclasses.replace(results.matrix, targets=targets, nodes=nodes)
    return Plan(matrix, frozenset(), with_conda=False)


def made(plan: Plan, where: Where, cores: int | None = 8) -> Jobs:
    return Jobs(plan, where, cores, ancient=lambda files: ("ancient", files))


def test_on_one_machine_threads_and_resources_are_values(plan):
    here = made(plan, Where())
    assert here.all_threads() == 8
    assert isinstance(here.slot_threads(), int)
    asked = here.asks("verify")
    assert not any(callable(value) for value in asked.values())
    assert asked["preload"] == 1
    assert asked["timeout_s"] == plan.limit("verify")["timeout_s"]
    assert not {"more_time", "more_memory"} & asked.keys()
    assert here.verified_on(plan.target) == here.beside_others() == here.alone_on(plan.target) == {}
    assert here.together("build") is here.group_on("verify", plan.target) is None


def test_stages_of_models_whose_files_are_not_trusted_run_in_a_sandbox(plan):
    models = dict(plan.matrix.models)
    files = {"graph": "a/model.onnx", "folder": "a/config.json", "program": "a/b.pt2", "text": "a/b.mlir"}  # fmt: skip
    models |= {name: dataclasses.replace(models["conv"], name=name, file=file) for name, file in files.items()}  # fmt: skip
    models["trusted"] = dataclasses.replace(models["program"], options={"trust": True})
    given = Plan(dataclasses.replace(plan.matrix, models=models), frozenset(), with_conda=False)
    for where in (Where(), Where(may_submit=True, submits=True)):
        asked = made(given, where).asks("verify")["sandbox"]
        in_sandbox = {name for name in models if asked(WILDCARDS | {"model": name})}
        assert in_sandbox == set(files)


def test_an_environment_is_a_value_where_all_cells_have_the_same(plan):
    found = made(plan, Where()).environment("compile")
    assert found["packages"] == ("ancient", [".venvs/iree/versions.json"])
    assert found["env"](WILDCARDS) == ["results/env/iree/status.json"]
    params = made(plan, Where()).params("compile")
    assert params["python"] == ".venvs/iree/bin/python"
    assert params["skip"](WILDCARDS) == ""
    assert (
        made(plan, Where()).params("export")["python"]({"model": "conv", "frontend": "mlir"})
        == ".venvs/torch-mlir/bin/python"
    )


def test_a_submitted_job_requests_what_its_stage_needs_and_its_kind_of_node(plan):
    where = Where(may_submit=True, submits=True)
    there = made(plan, where)
    given = there.asks("verify")
    assert given.pop("sandbox") == 0
    asked = {
        name: value(WILDCARDS) if name == "preload" else value(WILDCARDS, 1)
        for name, value in given.items()
    }
    of = of_axes(**WILDCARDS)
    assert asked == {"preload": 0} | dataclasses.asdict(plan.ask("verify", of, 1))
    assert there.slot_threads()(WILDCARDS) == resources.CPUS
    assert there.all_threads()(WILDCARDS) == 1
    found = {name: value(WILDCARDS) for name, value in there.verified_on(plan.target).items()}
    assert found == {
        "gres": "gpu:1",
        "slurm_partition": "big",
        "cpus_per_task": resources.CPUS,
        "building": BUILDING,
    }
    alone = {name: value(WILDCARDS) for name, value in there.alone_on(plan.target).items()}
    assert (alone["cpus_per_task"], alone["measuring"]) == (-1, 1)
    assert there.together("build-{model}") == "build-{model}"
    assert there.group_on("verify", plan.target)(WILDCARDS) == "verify-gpu"
    assert where.groups == {"verify-gpu": "verify-{node}"}


def test_where_jobs_might_have_been_submitted_and_are_not_they_have_the_limits_of_this_machine(
    plan,
):
    there = made(plan, Where(may_submit=True))
    asked = there.asks("verify")
    assert asked["memory_mb"](WILDCARDS, 1) == plan.within_limits("verify").memory_mb
    assert asked["preload"](WILDCARDS) == 1
    assert there.all_threads()(WILDCARDS) == 8
    assert {value(WILDCARDS) for value in there.beside_others().values()} == {None}
