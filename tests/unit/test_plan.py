"""plan: which statuses to retry, and the answers to the rules about a cell."""

import dataclasses
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from scripts.baselines.sessions.runtime import BaselineRequest
from scripts.config.cell import Cell, of_axes
from scripts.config.entries import Baseline, Override, TargetOverride
from scripts.config.settings import ConfigError
from scripts.config.stages import STAGES, status_path
from scripts.core import checkout, requests
from scripts.frontends.torch_model.arguments import Optimizer
from scripts.measure.timing.turns import Rule
from scripts.run import fingerprint
from scripts.run.plan import Plan, parse_retry
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome, Usage


@pytest.mark.parametrize(
    ("wanted", "statuses"),
    [
        (None, set()),
        ("", set()),
        ("timeout", {"timeout"}),
        ("timeout, oom", {"timeout", "oom"}),
        ("all", {"all"}),
        ("un*", {"unsupported", "unavailable"}),
        ("stale,damaged", {"stale", "damaged"}),
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


def cell(model: str = "conv", baseline: str = "eager", test: str = "eval") -> Cell:
    return of_axes(model=model, baseline=baseline, test=test)


def iree_cell(model: str = "conv", target: str = "vulkan") -> Cell:
    return of_axes(model=model, frontend="mlir", target=target)


@pytest.mark.parametrize(
    ("rule", "wildcards", "is_later"),
    [
        ("compile_iree", {"model": "conv", "frontend": "mlir", "target": "vulkan"}, True),
        ("export_program", {"model": "conv", "frontend": "mlir"}, False),
        ("verify_baseline", {"model": "conv", "baseline": "eager", "test": "eval"}, False),
        ("time_group", {"model": "conv", "device": "cpu", "test": "eval"}, False),
        ("time_group", {"model": "conv", "device": "cpu+2-threads", "test": "eval"}, False),
        ("time_group", {"model": "conv", "device": "vulkan", "test": "eval"}, True),
        ("measure_machine_limits", {"device": "cpu"}, True),
        ("aggregate_cpu", {}, False),
    ],
)
def test_jobs_of_other_devices_and_of_limits_come_after_those_of_the_cpu(
    plan, rule, wildcards, is_later
):
    assert plan.is_after_cpu(rule, wildcards) == is_later


def test_the_cpu_comes_first_where_rows_are_on_it_and_elsewhere(plan):
    assert plan.aggregation.has_cpu_first()
    of_cpu = Plan(plan.matrix.on_cpu(), frozenset(), with_conda=False)
    assert not of_cpu.aggregation.has_cpu_first()
    elsewhere = dataclasses.replace(plan.matrix, baselines={})
    rest = {name: target for name, target in elsewhere.targets.items() if not target.on_cpu}
    of_others = Plan(dataclasses.replace(elsewhere, targets=rest), frozenset(), with_conda=False)
    assert not of_others.aggregation.has_cpu_first()


@pytest.mark.parametrize(("status", "well"), [("ok", True), ("timeout", False), (None, False)])
def test_a_cell_ended_well_only_if_that_is_on_record(plan, status, well):
    if status:
        end(plan, status, "compile")
    assert Plan(plan.matrix, frozenset(), with_conda=True).stands("compile", iree_cell()) == well


def test_a_status_file_that_is_none_is_no_good_end_and_makes_the_cell_due(plan):
    path = Path(status_path("compile", "conv/mlir/vulkan"))
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert not plan.stands("compile", iree_cell())
    version = STAGES["compile"].version
    assert plan.due("compile", iree_cell()) == f"{version}+{path.stat().st_mtime_ns}"


@pytest.mark.parametrize("stage", ["env", "export", "compile", "verify"])
def test_stale_are_measurements_and_nothing_that_they_stand_on(plan, stage):
    ended = Outcome("ok", stage, "x", fingerprint="old", due="old")
    of = ENV if stage == "env" else iree_cell()
    outcome.write(status_path(stage, NAMES.get(stage, "conv/mlir/vulkan")), ended, Usage(0, 0))
    assert again(plan).due(stage, of) == "old"
    assert (again(plan, "stale").due(stage, of) == "old") == (stage != "verify")
    assert again(plan, "all").due(stage, of).endswith("+1") == (stage != "env")


def test_which_rows_are_stale_is_said_anew_when_what_measures_has_another_version(
    plan, monkeypatch
):
    before = plan.aggregation.measuring_code()
    for stage, is_said in (("compile", False), ("time", True)):
        monkeypatch.setitem(STAGES, stage, dataclasses.replace(STAGES[stage], version=7))
        assert (plan.aggregation.measuring_code() != before) == is_said


ENV = of_axes(env="torch-mlir")
NAMES = {"env": "torch-mlir", "export": "conv/mlir"}


def end(plan: Plan, status: str, stage: str, due: str = "", limit=None) -> str:
    """Record how a stage of conv (on vulkan) ended under the code of now; returns its due."""
    name = NAMES.get(stage, "conv/mlir/vulkan")
    current = fingerprint.of_stage(STAGES[stage])
    ended = Outcome(status, stage, name, fingerprint=current, due=due or current, limit=limit)
    outcome.write(status_path(stage, name), ended, Usage(0, 0))
    return ended.due


def again(plan: Plan, *retry: str) -> Plan:
    """The plan of a next run."""
    return Plan(plan.matrix, frozenset(retry), with_conda=False)


def test_a_cell_that_failed_is_due_when_its_stage_has_another_version(plan, monkeypatch):
    end(plan, "error", "export")
    current = plan.due("export", iree_cell())
    assert again(plan).due("export", iree_cell()) == current
    monkeypatch.setitem(STAGES, "export", dataclasses.replace(STAGES["export"], version=7))
    assert again(plan).due("export", iree_cell()) == "7"


@pytest.mark.parametrize(
    ("status", "limit", "forced"),
    [("timeout", 1, False), ("timeout", 2, True), ("oom", 2, True)],
)
def test_a_limit_that_is_another_now_forces_the_cells_that_met_it(plan, status, limit, forced):
    due = end(plan, status, "compile", limit=limit)
    unset = {name: {"timeout_s": 1} for name in plan.matrix.limits}
    if status == "oom":  # without a limit of its own, it is a share of the machine's memory
        assert changed(plan, limits=unset).due("compile", iree_cell()) == due
    assert plan.due("compile", iree_cell()) == (f"{due}+1" if forced else due)
    end(plan, status, "compile", due=plan.due("compile", iree_cell()), limit=1)
    assert again(plan).due("compile", iree_cell()) == (f"{due}+1" if forced else due)


@pytest.mark.parametrize("status", outcome.FAILED)
def test_an_environment_that_failed_is_tried_in_every_run(plan, status):
    due = end(plan, status, "env", limit=1)
    assert again(plan).due("env", ENV) == f"{due}+1"
    end(plan, status, "env", due=f"{due}+1", limit=1)
    assert again(plan).due("env", ENV) == f"{due}+2"


def test_an_environment_and_its_packages_are_inputs_unless_conda_makes_it(plan):
    assert plan.env_status("iree") == ["results/env/iree/status.json"]
    assert plan.env_packages("iree") == [".venvs/iree/versions.json"]
    conda = Plan(plan.matrix, frozenset(), with_conda=True)
    assert conda.env_status("iree") == conda.env_packages("iree") == []


def test_a_stage_runs_in_the_environment_of_its_entry_or_its_own_or_that_of_references(plan):
    baseline = dataclasses.replace(plan.matrix.baselines["eager"], env="torch-xla")
    other = changed(plan, reference_env="other", baselines={"eager": baseline})
    assert other.env("reference", cell()) == other.env("gradients", cell()) == "other"
    assert other.env("export", iree_cell()) == "torch-mlir"
    assert other.env("compile", iree_cell()) == other.env("dump_iree", iree_cell()) == "iree"
    assert other.env("baseline", cell()) == other.env("dump_baseline", cell()) == "torch-xla"


def changed(plan: Plan, **changes) -> Plan:
    return Plan(dataclasses.replace(plan.matrix, **changes), frozenset(), with_conda=False)


def parsed(text: str) -> BaselineRequest:
    """The request of a baseline as its stage takes it, of the JSON that a shell passes on."""
    quoted = shlex.quote(text)
    passed = subprocess.run(["sh", "-c", f"printf %s {quoted}"], stdout=subprocess.PIPE, text=True, check=True).stdout  # fmt: skip
    files = dict.fromkeys(("model_file", "weights", "inputs", "golden", "signature"), "x")
    return requests.decode(BaselineRequest, json.loads(passed) | files)


def test_what_is_measured_with_is_in_the_request_and_not_in_the_rule(plan):
    measure = {"matmul_precision": "medium", "threads": 3, "generations": 5}
    measure |= {"collect": ["operators", "profiler"], "budget_s": 1.5}
    other = changed(plan, measure=measure)
    request = parsed(other.requests.baseline(cell()))
    work = request.work
    assert (work.matmul_precision, work.threads) == ("medium", 3)
    assert other.groups.rule("conv") == Rule(generations=5, budget_s=1.5)
    assert request.collect == ["operators", "profiler"]
    assert parsed(plan.requests.baseline(cell())).collect == []
    plain = changed(plan, measure={})
    assert plain.groups.rule("conv") == Rule()


HOSTILE = [
    "--xla_a=1 --xla_b",
    "-leading",
    'it\'s "quoted"',
    "$(touch pwned) `touch pwned` ; touch pwned & > pwned",
    "{braces} {input.env:q} %s \\ \n end",
    "*",
    " ",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_any_value_reaches_the_stage_as_it_stands_whatever_a_shell_would_make_of_it(plan, text):
    model = dataclasses.replace(plan.matrix.models["conv"], options={"size": text})
    baseline = Baseline("eager", "eager", "cpu", "torch-mlir", xla_flags=text)
    other = changed(
        plan, models={"conv": model}, baselines={"eager": baseline}, train={"name": text}
    )
    work = parsed(other.requests.baseline(cell(test="train"))).work
    assert work.xla_flags == text
    assert work.model.options == {"size": text}
    assert work.optimizer == Optimizer(text)
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    ("stage", "of", "is_skipped"),
    [
        ("baseline", cell(), True),
        ("dump_baseline", cell(), True),
        ("baseline", cell(test="train"), False),
        ("reference", cell(), False),
        ("gradients", cell(), True),
        ("compile", iree_cell(), True),
        ("verify", iree_cell(), False),
        ("dump_iree", iree_cell(), True),
        ("dump_iree", iree_cell(target="llvm-cpu"), False),
    ],
)
def test_a_stage_is_skipped_by_what_is_said_of_its_cell_or_of_training_its_model(
    plan, stage, of, is_skipped
):
    why = "skip.all of x.yaml"
    model = dataclasses.replace(plan.matrix.models["conv"], skip_train=why)
    overrides = {"conv/eager/eval": Override(why), "conv/mlir/vulkan": Override(why)}
    other = changed(plan, models={"conv": model}, overrides=overrides)
    assert other.skip(stage, of) == (f"--skip '{why}'" if is_skipped else "")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_reason_to_skip_is_one_word_of_the_command_line(plan, text):
    reason = f"skip.all of {text}"
    other = changed(plan, overrides={"conv/eager/eval": Override(reason)})
    assert shlex.split(other.skip("baseline", cell())) == ["--skip", reason]


def test_a_tolerance_is_the_files_for_the_cell_under_the_models_own(plan):
    tiny = dataclasses.replace(plan.matrix.models["tiny"], tolerance={"tol": 0.5})
    other = changed(
        plan,
        models=plan.matrix.models | {"tiny": tiny},
        overrides={"tiny/eager/eval": Override("", {"tol": 0.25, "cosine": True})},
    )

    def tolerance(text: str) -> dict:
        return json.loads(text)["tolerance"]

    assert tolerance(other.requests.baseline(cell("tiny"))) == {"cosine": True, "tol": 0.5}
    assert tolerance(other.requests.baseline(cell("tiny", test="train"))) == {"tol": 0.5}
    assert tolerance(other.requests.verify(iree_cell("tiny"))) == {"tol": 0.5}
    assert tolerance(other.requests.baseline(cell())) == {}


@pytest.mark.parametrize(
    ("stage", "of"),
    [("gradients", "reference"), ("dump_iree", "baseline"), ("dump_baseline", "baseline")],
)
def test_a_stage_without_limits_of_its_own_has_those_of_the_stage_that_it_runs_as(plan, stage, of):
    limits = {name: {"timeout_s": 5, "memory_mb": 6} for name in plan.matrix.limits}
    limits[of] = {"timeout_s": 77, "memory_mb": 88}
    other = changed(plan, limits=limits)
    assert other.limit(stage) == limits[of]
    assert other.limit("compile") == {"timeout_s": 5, "memory_mb": 6}
    here = other.within_limits(stage)
    assert (here.timeout_s, here.memory_mb, here.more_memory, here.more_time) == (77, 88, 0, 0)


DUMP_MATRIX = {
    "tests": ("eval", "train"),
    "dumps": {"kinds": ["ir", "iree_graph"], "save_ir": "hlo", "repeat": 2, "iterations": 3},
}


def test_profiles_are_a_kind_of_dump_and_need_the_code_of_the_dispatches(plan):
    other = changed(plan, dumps={"kinds": ["modules"]})
    cells = ("conv/iree/mlir/llvm-cpu", "tiny/iree/mlir/llvm-cpu")
    assert (
        other["profile"].dumps()
        == other["profile"].profiles()
        == [
            *(f"results/profile/{model}/cpu/eval/profiles.json" for model in ("conv", "tiny")),
            *(f"results/code/{cell}/code.json" for cell in cells),
        ]
    )


def test_a_dump_is_asked_for_what_is_set(plan):
    other = changed(plan, **DUMP_MATRIX)
    kinds = ["ir", "iree_graph"]
    dumps = {"kinds": kinds, "save_ir": ["hlo"], "repeat": 2, "iterations": 3}
    assert dumps.items() <= json.loads(other.requests.dump_baseline(cell())).items()
    assert json.loads(other.requests.dump_iree(iree_cell()))["kinds"] == kinds
    assert not dumps.keys() & json.loads(plan.requests.dump_baseline(cell())).keys()


def test_a_change_of_an_override_changes_the_params_of_the_cells_that_it_touches_alone(plan):
    def params(*overrides: TargetOverride) -> dict[tuple[str, str], str]:
        targets = dict(plan.matrix.targets)
        targets["vulkan"] = dataclasses.replace(targets["vulkan"], overrides=overrides)
        asked = changed(plan, targets=targets).requests
        cells = [(m, t) for m in plan.matrix.models for t in targets]
        return {(m, t): asked.compile(iree_cell(m, t)) for m, t in cells}

    none, one = params(), params(TargetOverride("conv", opt_level="O0"))
    other = params(TargetOverride("conv", opt_level="O0"), TargetOverride("ti*", flags=("--x",)))
    assert {cell for cell in none if one[cell] != none[cell]} == {("conv", "vulkan")}
    assert {cell for cell in none if other[cell] != one[cell]} == {("tiny", "vulkan")}
    assert json.loads(one["conv", "vulkan"])["opt_level"] == "O0"
    tiny = json.loads(other["tiny", "vulkan"])
    assert (tiny["opt_level"], tiny["flags"]) == ("O2", ["--x"])


def test_the_digest_changes_with_the_tests_and_what_a_file_says_of_a_cell(plan):
    digests = {
        plan.aggregation.digest(),
        changed(plan, tests=("eval", "train")).aggregation.digest(),
        changed(plan, overrides={"conv/eager/eval": Override("why")}).aggregation.digest(),
        changed(
            plan, overrides={"conv/eager/eval": Override(tolerance={"tol": 0.5})}
        ).aggregation.digest(),
    }
    assert len(digests) == 4
    assert changed(plan).aggregation.digest() == plan.aggregation.digest()


def test_every_stage_has_a_rule_and_modules_that_exist():
    for stage in STAGES.values():
        own = [name for name in stage.modules if "{" not in name]
        files = [Path(checkout.ROOT, *name.split(".")).with_suffix(".py") for name in own]
        assert all(file.is_file() for file in files), stage
    rules = Path(checkout.ROOT, "workflow/rules").glob("*.smk")
    found = re.findall(r'JOBS\.params\("(\w+)"\)', "".join(file.read_text() for file in rules))
    assert sorted(found) == sorted(STAGES)


def test_a_submitted_stage_asks_for_what_its_models_weights_need(plan, results):
    results.write()
    asked = plan.ask("verify", iree_cell(), 1)
    Path("results/reference/conv/weights.irpa").write_bytes(bytes(64 << 20))
    assert plan.ask("verify", iree_cell(), 1).timeout_s >= asked.timeout_s
    limits = {name: {"timeout_s": 1e6} for name in plan.matrix.limits}
    free = changed(plan, limits=limits)
    small = free.ask("verify", iree_cell(), 1)
    with open("results/reference/conv/weights.irpa", "r+b") as file:
        file.truncate(4 << 30)
    assert free.ask("verify", iree_cell(), 1).memory_mb > small.memory_mb + 4096


@pytest.mark.parametrize(
    ("stage", "step", "forward"),
    [
        ("verify", of_axes(model="conv", frontend="torch+train", target="t"), iree_cell()),
        ("baseline", cell(test="train"), cell()),
    ],
)
def test_a_submitted_training_step_asks_for_its_gradients_too(plan, results, stage, step, forward):
    results.write()
    Path("results/reference/conv/weights.irpa").write_bytes(bytes(64 << 20))
    free = changed(plan, limits={name: {"timeout_s": 1e6} for name in plan.matrix.limits})
    asked = free.ask(stage, step, 1).memory_mb
    assert asked > free.ask(stage, forward, 1).memory_mb + 12 * 64
    assert free.ask("gradients", of_axes(model="conv"), 1).memory_mb > 12 * 64 + 3000
