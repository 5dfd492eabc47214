"""plan: which statuses to retry, and what the rules are told of a cell."""

import dataclasses
import json
import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import measure_baseline
from scripts.lib.config.matrix import Baseline, Override, Target
from scripts.lib.config.settings import ConfigError
from scripts.lib.driver import fingerprint
from scripts.lib.driver.plan import SCRIPTS, Plan, parse_retry, status_path
from scripts.lib.supervision import outcome
from scripts.lib.supervision.outcome import Outcome, Usage
from scripts.lib.timing.stopping import StoppingRule


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
    assert "results/baseline/conv/eager/eval/status.json" in found
    assert "results/export/tiny/mlir/report.json" in found
    assert "results/compile/tiny/mlir/vulkan/report.json" in found
    assert all(Path(file).exists() for file in found)
    models, frontends, targets, baselines = 2, 1, 2, 1
    exports = models * frontends
    assert len(found) == len(set(found)) == exports + exports * targets * 3 + models * baselines * 2


def test_the_aggregate_is_made_of_every_test_of_a_baseline(results):
    results.matrix = dataclasses.replace(results.matrix, tests=("eval", "train"))
    results.write()
    found = Plan(results.matrix, frozenset(), with_conda=False).results()
    assert all(Path(file).exists() for file in found)
    assert {
        f for f in found if f.startswith("results/baseline/") and f.endswith("status.json")
    } == {
        f"results/baseline/{model}/eager/{test}/status.json"
        for model in ("conv", "tiny")
        for test in ("eval", "train")
    }


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


def cell(model: str = "conv", baseline: str = "eager", test: str = "eval") -> SimpleNamespace:
    """Wildcards of a baseline's cell."""
    return SimpleNamespace(model=model, baseline=baseline, test=test)


def changed(plan: Plan, **changes) -> Plan:
    return Plan(dataclasses.replace(plan.matrix, **changes), frozenset(), with_conda=False)


def parsed(options: str) -> dict:
    """The values of options as scripts.measure_baseline takes them from a shell's words."""
    parser = measure_baseline.argument_parser("x", "")
    files = [f"--{name}=x" for name in ("name", "model-file", "weights", "inputs", "golden", "signature")]  # fmt: skip
    words = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' {options}"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split("\0")[:-1]
    return vars(parser.parse_args([*files, *words]))


def test_a_step_is_the_models_options_and_the_baselines_runtime_device_and_precision(plan):
    options = parsed(plan.step(cell("tiny")))
    assert options["options"] == {"batch_size": 4, "dtype": "f16"}
    assert [options[k] for k in ("runtime", "device", "test", "precision")] == [
        *("eager", "cpu", "eval", "none"),
    ]
    assert (options["matmul_precision"], options["xla_flags"]) == ("highest", "")
    assert (options["optimizer"], options["threads"]) == ({}, None)


def test_only_a_training_step_has_an_optimizer(plan):
    trains = changed(plan, tests=("eval", "train"), train={"name": "Adam", "lr": 0.5})
    options = parsed(trains.step(cell(test="train")))
    assert (options["test"], options["optimizer"]) == ("train", {"name": "Adam", "lr": 0.5})
    assert "--optimizer" not in trains.step(cell())


def test_what_is_measured_with_is_in_the_step_and_not_in_the_stopping_rule(plan):
    measure = {"matmul_precision": "medium", "threads": 3, "repeat": 5, "iterations_per_run": 2}
    measure |= {"collect": ["operators", "profiler"], "budget_s": 1.5}
    other = changed(plan, measure=measure)
    options = parsed(other.step(cell()))
    assert (options["matmul_precision"], options["threads"]) == ("medium", 3)
    rule = StoppingRule(**json.loads(other.rule()))
    assert rule == StoppingRule(repeat=5, iterations_per_run=2, budget_s=1.5)
    assert json.loads(other.collect()) == ["operators", "profiler"]
    assert plan.collect() == "[]"
    assert StoppingRule(**json.loads(plan.rule())) == StoppingRule()


def test_a_step_of_the_policy_is_in_the_precision_that_the_file_came_to(plan):
    policy = Baseline("eager", "eager", "cuda", "torch-mlir", "torchbench")
    other = changed(
        plan,
        baselines={"eager": policy},
        tests=("eval", "train"),
        overrides={
            "conv/eager/eval": Override(precision="bf16"),
            "conv/eager/train": Override(precision="amp-fp16"),
        },
    )
    found = [parsed(other.step(cell(test=test)))["precision"] for test in ("eval", "train")]
    assert found == ["bf16", "amp-fp16"]


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
    options = parsed(other.step(cell(test="train")))
    assert options["xla_flags"] == text
    assert options["options"] == {"size": text}
    assert options["optimizer"] == {"name": text}
    assert not Path("pwned").exists()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_reason_to_skip_is_one_word_of_the_command_line(plan, text):
    reason = f"skip.all of {text}"
    other = changed(plan, overrides={"conv/eager/eval": Override(reason)})
    assert shlex.split(other.skip("conv/eager/eval")) == ["--skip", reason]


def test_a_cell_is_skipped_with_the_reason_of_its_own_override_only(plan):
    other = changed(plan, overrides={"conv/eager/eval": Override("skip.all of x.yaml")})
    assert other.skip("conv/eager/eval") == "--skip 'skip.all of x.yaml'"
    assert other.skip("conv/eager/train") == other.skip("conv/mlir/vulkan") == ""


def test_a_tolerance_is_the_files_for_the_cell_under_the_models_own(plan):
    tiny = dataclasses.replace(plan.matrix.models["tiny"], tolerance={"tol": 0.5})
    other = changed(
        plan,
        models=plan.matrix.models | {"tiny": tiny},
        overrides={"tiny/eager/eval": Override("", None, {"tol": 0.25, "cosine": True})},
    )
    assert json.loads(other.tolerance(cell("tiny"), "tiny/eager/eval")) == {"cosine": True, "tol": 0.5}  # fmt: skip
    assert other.tolerance(cell("tiny"), "tiny/eager/train") == '{"tol":0.5}'
    assert other.tolerance(cell(), "conv/eager/eval") == "{}"


@pytest.mark.parametrize(("test", "stage"), [("eval", "reference"), ("train", "gradients")])
def test_a_test_is_held_to_the_golden_results_of_its_own_stage(plan, test, stage):
    assert plan.golden(cell(test=test), "golden.npz") == f"results/{stage}/conv/golden.npz"


@pytest.mark.parametrize(("stage", "of"), [("gradients", "reference"), ("dumps", "baseline")])
def test_a_stage_without_limits_of_its_own_has_those_of_the_stage_that_it_runs_as(plan, stage, of):
    limits = {name: {"timeout_s": 5, "memory_mb": 6} for name in plan.matrix.limits}
    del limits[stage]
    limits[of] = {"timeout_s": 77, "memory_mb": 88}
    other = changed(plan, limits=limits)
    assert (other.timeout_s(stage), other.memory_mb(stage)) == (77, 88)
    assert (other.timeout_s("compile"), other.memory_mb("compile")) == (5, 6)


DUMP_MATRIX = {
    "tests": ("eval", "train"),
    "dumps": {"kinds": ["ir", "iree_graph"], "save_ir": "hlo", "repeat": 2, "iterations": 3},
}


def test_every_cell_has_a_dump_of_its_own(plan):
    other = changed(plan, **DUMP_MATRIX)
    assert other.dumps() == [
        f"results/dumps/{name}/files.json"
        for name in [
            *("conv/iree/mlir/llvm-cpu", "conv/iree/mlir/vulkan"),
            *("tiny/iree/mlir/llvm-cpu", "tiny/iree/mlir/vulkan"),
            *("conv/eager/eval", "conv/eager/train", "tiny/eager/eval", "tiny/eager/train"),
        ]
    ]
    made = [other.dump_cell(cell(m.name, b.name, t)) for m, b, t in other.matrix.baseline_cells()]
    made += [
        other.dump_cell(SimpleNamespace(model=m.name, frontend=f.name, target=t.name))
        for m, f, t in other.matrix.cells()
    ]
    assert sorted(other.dumps()) == sorted(f"results/dumps/{name}/files.json" for name in made)


def test_dump_options_are_those_that_are_set_of_the_keys_asked_for(plan):
    other = changed(plan, **DUMP_MATRIX)
    assert shlex.split(other.dump_options("kinds", "save_ir", "repeat", "iterations")) == [
        *('--kinds=["ir","iree_graph"]', "--save-ir=hlo", "--repeat=2", "--iterations=3"),
    ]
    assert shlex.split(other.dump_options("kinds")) == ['--kinds=["ir","iree_graph"]']
    assert plan.dump_options("kinds", "save_ir") == ""


@pytest.mark.parametrize("text", HOSTILE)
def test_a_target_is_options_that_a_shell_does_not_touch(plan, text):
    target = Target("odd", "cuda", text, "O3", (f"--x={text}", text), "cuda")
    other = changed(plan, targets={"odd": target})
    words = shlex.split(other.compile_options(SimpleNamespace(target="odd")))
    assert words[:5] == ["--backend", "cuda", f"--arch={text}", "--opt-level", "O3"]
    assert words[5] == "--flags"
    assert json.loads(words[6]) == [f"--x={text}", text]
    assert len(words) == 7


def test_the_digest_changes_with_the_tests_and_what_a_file_says_of_a_cell(plan):
    digests = {
        plan.digest(),
        changed(plan, tests=("eval", "train")).digest(),
        changed(plan, overrides={"conv/eager/eval": Override("why")}).digest(),
        changed(plan, overrides={"conv/eager/eval": Override(precision="bf16")}).digest(),
    }
    assert len(digests) == 4
    assert changed(plan).digest() == plan.digest()


def test_every_stage_of_the_rules_has_modules_that_exist():
    for stage, modules in SCRIPTS.items():
        files = [Path(fingerprint.ROOT, *name.split(".")).with_suffix(".py") for name in modules]
        assert all(file.is_file() for file in files), stage
    rules = "\n".join(p.read_text() for p in (fingerprint.ROOT / "workflow/rules").glob("*.smk"))
    assert set(re.findall(r'stage="(\w+)"', rules)) | {"env"} == set(SCRIPTS)


def rule_texts() -> list[str]:
    """The rules that run a stage, each as it is written."""
    files = (fingerprint.ROOT / "workflow/rules").glob("*.smk")
    rules = [rule for file in sorted(files) for rule in file.read_text().split("\nrule ")[1:]]
    return [rule for rule in rules if "SUPERVISE" in rule]


@pytest.mark.parametrize("rule", rule_texts(), ids=lambda rule: rule.split(":")[0])
def test_a_rule_asks_and_records_under_the_same_modules(rule):
    """Where the two differ, a cell that failed would run again each time, or never."""
    stage = re.search(r'stage=(?:lambda w: )?"(\w+)"', rule)[1]
    recorded = re.search(r"--module ((?:scripts[\w.]+(?:\{[\w.]+\})? ?)+)", rule)[1].split()
    asked = re.search(r"PLAN\.due\((.*?)\n        ?(?:\),|\w+=)|PLAN\.due\((.*)\),\n", rule, re.DOTALL)  # fmt: skip
    further = re.findall(r'f?"(scripts\.[^"]+)"', asked[0])
    folders = [name.split("{")[0] for name in (*SCRIPTS[stage], *further)]
    assert folders == [name.split("{")[0] for name in recorded]
    started = re.search(r"-m (scripts\.\w+)", rule.split(" -- ")[1])[1]
    assert started == recorded[0]


def test_a_submitted_stage_asks_for_what_its_models_weights_need(plan, results):
    results.write()
    asked = plan.ask("measure", "conv", 1, submitted=True)
    Path("results/reference/conv/weights.irpa").write_bytes(bytes(64 << 20))
    assert plan.ask("measure", "conv", 1, submitted=True).timeout_s >= asked.timeout_s
    limits = {name: {"timeout_s": 1e6} for name in plan.matrix.limits}
    free = changed(plan, limits=limits)
    small = free.ask("measure", "conv", 1, submitted=True)
    with open("results/reference/conv/weights.irpa", "r+b") as file:
        file.truncate(4 << 30)
    assert free.ask("measure", "conv", 1, submitted=True).memory_mb > small.memory_mb + 4096
    here = free.ask("measure", "conv", 1, submitted=False)
    assert (here.memory_mb, here.more_memory, here.more_time) == (free.memory_mb("measure"), 0, 0)


def test_an_oom_is_tried_again_only_where_the_limit_that_it_met_is_set(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path(status_path("compile", "m/f/t"))
    met = Outcome("oom", "compile", "m/f/t", fingerprint="x", due="x", limit=100.0)
    outcome.write(path, met, Usage(0, 0))
    monkeypatch.setattr(fingerprint, "of_stage", lambda *_: "x")
    unset = {name: {"timeout_s": 5} for name in plan.matrix.limits}
    assert changed(plan, limits=unset).due("compile", "m/f/t") == "x"
    raised = {name: {"timeout_s": 5, "memory_mb": 200} for name in plan.matrix.limits}
    assert changed(plan, limits=raised).due("compile", "m/f/t") == "x+1"
    same = {name: {"timeout_s": 5, "memory_mb": 100} for name in plan.matrix.limits}
    assert changed(plan, limits=same).due("compile", "m/f/t") == "x"
