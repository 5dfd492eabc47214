"""config.yaml: what is shipped passes its own checks, and its keys are documented."""

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from scripts.config import expansion, sections, settings, stages
from scripts.config.cell import Kind, of_axes
from scripts.measure.timing.turns import Rule
from scripts.run.plan import Plan

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"


@pytest.fixture
def config() -> dict:
    return yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


def test_the_shipped_configuration_and_every_file_it_names_are_sound(config):
    declared, selections = settings.load(config, [ROOT / "config.yaml"])
    everything = dict.fromkeys(("frontends", "targets", "baselines"), "*")
    expansion.expand(declared, selections | everything, ROOT)
    found = expansion.expand(declared, selections, ROOT)
    assert {path.stem for path in (ROOT / "models").glob("[!_]*.py")} == {
        model.family for model in found.models.values()
    }
    assert {model.suite for model in found.models.values()} == {"vmfbench"}


@pytest.mark.parametrize("tests", ["eval", "train", "eval,train"])
def test_every_cell_of_any_tests_has_results_dumps_and_a_command_of_its_own(config, tests):
    found = expansion.expand(config, {"tests": tests}, ROOT)
    plan = Plan(found, frozenset(), with_conda=False)
    cells = len(list(found.cells())) + len(list(found.baseline_cells()))
    assert len(set(plan["profile"].dumps())) == len(plan["profile"].dumps()) == cells
    ended = [file for file in plan.aggregation.results() if file.endswith("status.json")]
    assert len(ended) == cells + len(found.groups())
    assert len(plan.aggregation.results()) == len(set(plan.aggregation.results()))
    for model, baseline, test in found.baseline_cells():
        cell = of_axes(model=model.name, baseline=baseline.name, test=test)
        assert json.loads(plan.requests.baseline(cell))["runtime"] == baseline.runtime
    assert all(plan.within_limits(stage).timeout_s > 0 for stage in stages.STAGES)


def test_the_default_run_is_the_one_that_its_time_is_given_for(config):
    """The goals of docs/performance.md are for these rows, budgets and limits."""
    found = expansion.expand(config, {}, ROOT)
    rows = Counter(row.target if row.kind is Kind.IREE else row.baseline for row in found.rows())
    assert rows == {
        "llvm-cpu": 48, "cuda": 16, "rocm": 16, "vulkan-ada": 16, "vulkan": 1,
        "eager": 16, "inductor": 16, "eager-cuda": 16, "inductor-cuda": 16,
    }  # fmt: skip
    assert list(found.models) == [
        "bert", "conv", "deepseek", "gat", "gatv2", "gcn", "gpt2-prefill", "gpt2-decode",
        "graphsage", "llama-qlora", "llama-spinquant", "llama-prefill", "llama-decode",
        "mobilenet", "resnet", "vit",
    ]  # fmt: skip
    assert list(found.frontends) == ["torchmlir-torch", "torchmlir-stablehlo", "torchxla-stablehlo"]
    assert {stage: limit["timeout_s"] for stage, limit in found.limits.items()} == {
        "env": 1800, "reference": 1800, "export": 900, "compile": 600, "verify": 300,
        "baseline": 900, "time": 1800, "operators": 60,
    }  # fmt: skip


def test_the_shipped_baseline_on_xla_runs_the_stablehlo_of_each_kind_of_model(config, tmp_path):
    program = tmp_path / "program.mlir"
    program.write_text("func.func @main() { return }")
    declared = config | {"models": config["models"] | {"program": {"file": str(program)}}}
    chosen = {"models": "conv,program", "baselines": "xla-stablehlo"}
    matrix = expansion.expand(declared, chosen, ROOT)
    rows = [row for row in matrix.rows() if row.kind is Kind.BASELINE]
    run = {row.model: matrix.program(row).frontend for row in rows}
    assert run == {"conv": "torchmlir-stablehlo", "program": "mlir"}


def test_the_shipped_rule_of_timing_and_levels_are_the_defaults(config):
    found = expansion.expand(config, {}, ROOT)
    assert Plan(found, frozenset(), with_conda=False).groups.rule("resnet") == Rule()
    levels = {name: target.opt_level for name, target in found.targets.items()}
    assert levels == {
        "llvm-cpu": "O3", "vulkan": "O2", "vulkan-ada": "O2", "cuda": "O2", "rocm": "O2",
    }  # fmt: skip


def test_the_shipped_flags_and_overrides_are_those_of_the_page_of_performance(config):
    """docs/performance.md#default-flags: tables by entry and by target."""
    cells = list(expansion.expand(config, {}, ROOT).cells())
    plain = {m.name for m, _, t in cells if t.name == "llvm-cpu" and not t.flags}
    assert plain == {"llama-prefill", "llama-qlora", "llama-spinquant"}
    tiled = [t.flags for _, _, t in cells if t.name == "llvm-cpu" and t.flags]
    assert {flags[0] for flags in tiled} == {"--iree-dispatch-creation-data-tiling"}
    of_gpus = {
        t: {m.name: (f.name, of.opt_level) for m, f, of in cells if of.name == t}
        for t in ("cuda", "rocm", "vulkan-ada")
    }
    usual = {"cuda": "torchxla-stablehlo", "rocm": "torchxla-stablehlo", "vulkan-ada": "torchmlir-torch"}  # fmt: skip
    for t, models in of_gpus.items():
        assert set(models.values()) == {(usual[t], "O2")}, "the rest is left to remedies"
    of_cuda = {m.name: t.flags for m, _, t in cells if t.name == "cuda" and t.flags}
    assert of_cuda == {"llama-qlora": ("--iree-dispatch-creation-fuse-multi-use=false",)}
    plan = Plan(expansion.expand(config, {}, ROOT), frozenset(), with_conda=False)

    def tried(model: str, target: str) -> list[tuple[str, str]]:
        of = of_axes(model=model, frontend=usual[target], target=target)
        return [(one.frontend, one.opt_level) for one in plan.modules.attempts(of)]

    for target in ("cuda", "rocm"):
        assert ("torchxla-stablehlo", "O1") in tried("mobilenet", target)
        of = of_axes(model="llama-qlora", frontend=usual[target], target=target)
        assert bool(plan.modules.hang(of)) == (target == "rocm")
    assert tried("resnet", "rocm")[0] == ("torchmlir-torch", "O2")
    assert tried("gcn", "vulkan-ada")[0] == ("torchxla-stablehlo", "O2")


@pytest.mark.parametrize("field", dataclasses.fields(Rule), ids=lambda field: field.name)
def test_the_defaults_of_the_page_are_those_of_the_rule(field):
    line = re.search(rf"^\| `{field.name}` .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = "false" if field.default is False else f"{field.default:g}"
    assert f"| {shown} |" in line[0]


def keys_of(schema: dict) -> set[str]:
    """Every key that the schema knows, at any depth."""
    found = set(schema.get("properties", {}))
    for value in schema.values():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                found |= keys_of(inner)
    return found


@pytest.mark.skipif(not PAGE.exists(), reason="docs/configuration.md is not written yet")
@pytest.mark.parametrize("key", sorted(keys_of(sections.CONFIGURATION.json_schema())))
def test_every_key_of_the_configuration_is_documented(key):
    page = PAGE.read_text(encoding="utf-8")
    assert re.search(rf"^## {key}$|`[^`\n]*\b{key}\b[^`\n]*`", page, re.MULTILINE)
