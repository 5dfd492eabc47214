"""settings: what is wrong with a configuration is found whole, and said with what is allowed."""

import copy
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scripts.lib import settings
from scripts.lib.settings import ConfigError

GOOD = yaml.safe_load("""
models: {bert: {seq_len: 8}, resnet: {size: 18}}
reference: {env: torch-mlir}
frontends: {mlir: {exporter: torch_mlir, env: torch-mlir}}
targets: {cpu: {backend: llvm-cpu, flags: [--x]}}
baselines: {eager: {runtime: eager, device: cpu, env: torch-mlir}}
measure: {repetitions: 5}
limits: {env: &l {timeout_s: 1}, reference: *l, export: *l, compile: *l, measure: *l, baseline: *l}
expect: {"*": ok, "x/*": {status: error, stage: compile}}
""")


def changed(path: str, value) -> dict:
    """GOOD with the value at a dotted path replaced, or removed where it is `...`."""
    config = copy.deepcopy(GOOD)
    *above, last = path.split("/")
    inside = config
    for key in above:
        inside = inside[key]
    if value is ...:
        del inside[last]
    else:
        inside[last] = value
    return config


def test_a_good_configuration_passes():
    settings.check(GOOD)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("modells", {}, "modells: unknown key 'modells'; did you mean 'models'? (allowed: models, reference, frontends, targets, baselines, measure, limits, expect, retry)"),
        ("targets/cpu/optlevel", "O2", "targets.cpu.optlevel: unknown key 'optlevel'; did you mean 'opt_level'? (allowed: backend, arch, opt_level, flags, frontends, device)"),
        ("measure/zzz", 1, "measure.zzz: unknown key 'zzz'; there are: budget_s, repetition_s, repetitions, threads, warmup_s (allowed: threads, repetitions, repetition_s, warmup_s, budget_s)"),
        ("targets/cpu/backend", "llvmcpu", "targets.cpu.backend: found \"llvmcpu\", allowed is one of llvm-cpu, vulkan, cuda, rocm; did you mean 'llvm-cpu'?"),
        ("measure/repetitions", "ten", "measure.repetitions: found \"ten\", allowed is a value of type integer"),
        ("models/bert/size", 1.5, "models.bert.size: found 1.5, allowed is string or integer"),
        ("frontends/mlir/env", ..., "frontends.mlir: missing env"),
        ("frontends/mlir", {}, "frontends.mlir: missing exporter, env"),
        ("measure", ..., "config: missing measure"),
        ("reference", ..., "config: missing reference"),
        ("reference", {}, "reference: missing env"),
        ("targets/cpu/frontends", [], "targets.cpu.frontends: found []: [] should be non-empty"),
        ("expect/*", "okay", "expect.*: found \"okay\", allowed is a status or a mapping with status, stage, reason"),
        ("targets/cpu/flags", ["O3"], "targets.cpu.flags.0: found \"O3\", allowed is text that matches ^--"),
        ("models/a b", {}, "models: found \"a b\", allowed is text that matches ^[A-Za-z0-9][A-Za-z0-9._-]*$"),
        ("measure/repetitions", 0, "measure.repetitions: found 0: 0 is less than the minimum of 1"),
        ("frontends", {}, "frontends: found {}: {} should be non-empty"),
    ],
)  # fmt: skip
def test_a_problem_is_said_with_its_key_what_was_found_and_what_is_allowed(path, value, message):
    with pytest.raises(ConfigError) as problem:
        settings.check(changed(path, value))
    assert str(problem.value) == message


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("top level", "on: push"),  # YAML 1.1: `on` is True
        ("a number", "2024: {}"),
        ("a date", "measure: {repetitions: 2024-01-01}"),
    ],
)
def test_yaml_that_is_no_json_is_a_configuration_problem_too(key, text):
    with pytest.raises(ConfigError):
        settings.check(GOOD | yaml.safe_load(text))


def test_every_problem_is_reported_at_once():
    config = changed("targets/cpu/backend", "cpu") | {"measure": {"repetitions": -1}}
    with pytest.raises(ConfigError) as problem:
        settings.check(config)
    assert [line.split(":")[0] for line in str(problem.value).splitlines()] == [
        "measure.repetitions",
        "targets.cpu.backend",
    ]


def test_a_long_value_is_cut_short_in_its_message():
    with pytest.raises(ConfigError) as problem:
        settings.check(changed("models", list(range(1000))))
    assert len(str(problem.value)) < 200


def test_a_selection_on_the_command_line_reads_the_mapping_from_the_files_again(tmp_path):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(yaml.safe_dump(GOOD))
    second.write_text("models: {bert: {seq_len: 16}, tiny: {}}")
    given_config = GOOD | {"models": "resnet,bert", "targets": "*"}
    declared, selections = settings.load(given_config, [first, second])
    assert selections == {"models": "resnet,bert", "targets": "*"}
    assert declared["models"] == {"bert": {"seq_len": 16}, "resnet": {"size": 18}, "tiny": {}}
    assert declared["targets"] == GOOD["targets"]


def test_a_mapping_on_the_command_line_is_no_selection_and_an_empty_key_is_an_empty_mapping():
    declared, selections = settings.load(GOOD | {"baselines": None}, [])
    assert selections == {}
    assert declared["baselines"] == {}
    assert declared["models"] == GOOD["models"]


def test_what_is_wrong_is_found_while_loading():
    with pytest.raises(ConfigError, match="did you mean 'models'"):
        settings.load({**GOOD, "model": {}}, [])


KNOWN = ["resnet", "bert", "resnext", "vit"]


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (None, KNOWN),
        ("vit,bert", ["bert", "vit"]),
        ("res*", ["resnet", "resnext"]),
        (" res* , resnet ,", ["resnet", "resnext"]),
        ("*", KNOWN),
    ],
)
def test_a_selection_takes_names_and_globs_in_the_order_declared(wanted, chosen):
    assert settings.select("model", KNOWN, wanted) == chosen


@given(st.sets(st.sampled_from(KNOWN), min_size=1).map(sorted))
def test_any_selection_of_names_is_those_names(names):
    assert set(settings.select("model", KNOWN, ",".join(names))) == set(names)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("resnt", "unknown model 'resnt'; did you mean 'resnet'?"),
        ("bert,zz*", "unknown model 'zz*'; there are: bert, resnet, resnext, vit"),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_the_nearest(wanted, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        settings.select("model", KNOWN, wanted)


def test_where_nothing_is_known_the_message_says_none():
    assert settings.unknown("baseline", "x", []) == "unknown baseline 'x'; there are: none"
