"""settings: all errors of a configuration are reported together, with the allowed values."""

import copy
import dataclasses
import datetime
import re
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from snakemake.cli import parse_config

from scripts.config import expansion, reading, sections, settings
from scripts.config.settings import ConfigError
from scripts.measure.verify.torch_same import Tolerance
from scripts.run.params import RULE_KEYS

GOOD = yaml.safe_load("""
models: {bert: {seq_len: 8}, resnet: {size: 18}}
reference: {env: torch-mlir}
frontends: {mlir: {exporter: torch_mlir, env: torch-mlir}}
targets: {cpu: {backend: llvm-cpu, flags: [--x]}}
baselines: {eager: {runtime: eager, device: cpu, env: torch-mlir}}
tests: [eval]
measure: {generations: 5}
limits: {env: &l {timeout_s: 1}, reference: *l, export: *l, compile: *l, verify: *l, baseline: *l, time: *l}
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
    ("path", "value"),
    [
        ("tests", ["train", "eval"]),
        ("train", {"name": "AdamW", "lr": 1e-3}),
        ("train", {}),
        ("torchbench", {"file": "~/bench.yaml"}),
        ("dumps", {"repeat": 2, "iterations": 3, "kinds": [], "save_ir": "hlo"}),
        ("filter", "^res"),
        ("targets/cpu/overrides", {"bert": {"flags": [], "opt_level": "O0"}, "res*": None}),
        ("targets/cpu/overrides", None),
        ("expect/*", ["ok", "unavailable"]),
        ("exclude", ""),
        ("measure", {"generations": 1, "slice_s": 0.1, "matmul_precision": "high", "collect": ["profiler", "operators", "dynamo_counters"]}),
        ("models/bert/tolerance", {"tol": 0.1, "cosine": True, "small_tensor_multiplier": False}),
        ("models/bert/torchbench", "hf_Bert"),
        ("train", {"name": "SGD", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}),
        ("train", {"name": "AdamW", "betas": [0.9, 0.95], "eps": 1e-6, "amsgrad": True}),
        ("baselines/eager/precision", "amp-bf16"),
        ("baselines/eager/xla_flags", "--xla_gpu_autotune_level=0 --xla_dump_to=/tmp/a b"),
    ],
)  # fmt: skip
def test_what_may_be_set_passes(path, value):
    settings.check(changed(path, value))


def test_the_keys_of_the_schema_are_those_that_the_stages_take():
    of_tolerance = [field.name for field in dataclasses.fields(Tolerance)]
    assert sections.keys(["models", "bert", "tolerance"]) == of_tolerance
    assert set(RULE_KEYS) <= {*sections.keys(["measure"])}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("modells", {}, "modells: unknown key 'modells'; did you mean 'models'? (allowed: models, suites, kernels, reference, frontends, targets, baselines, toolchains, tests, train, torchbench, dumps, measure, tune, operators, fuzz, limits, nodes, remedies, speed_rewrites, compare, expect, file, quick, stop_on, filter, exclude, batch, retry)"),
        ("targets/cpu/optlevel", "O2", "targets.cpu.optlevel: unknown key 'optlevel'; did you mean 'opt_level'? (allowed: default, backend, arch, opt_level, flags, frontends, models, overrides, node, remedies, device, tuned)"),
        ("measure/zzz", 1, "measure.zzz: unknown key 'zzz'; there are: budget_s, collect, generations, matmul_precision, slice_s, threads, until_decided (allowed: budget_s, slice_s, generations, threads, matmul_precision, collect, until_decided)"),
        ("targets/cpu/overrides", {"bert": {"arch": "sm_90"}}, "targets.cpu.overrides.bert.arch: unknown key 'arch'; there are: flags, frontends, opt_level, train (allowed: frontends, opt_level, flags, train)"),
        ("targets/cpu/overrides", {"bert": {}}, "targets.cpu.overrides.bert: found {}, which should have at least 1 item"),
        ("targets/cpu/backend", "llvmcpu", "targets.cpu.backend: found \"llvmcpu\", which should be 'llvm-cpu', 'vulkan', 'cuda' or 'rocm'; did you mean 'llvm-cpu'?"),
        ("models/bert/size", 1.5, "models.bert.size: found 1.5, which should be a valid string, or be a valid integer"),
        ("frontends/mlir", {}, "frontends.mlir: missing exporter, env"),
        ("expect/*", "okay", "expect.*: found \"okay\", which should be 'ok', 'unsupported', 'error', 'crashed', 'timeout', 'oom', 'damaged', 'unavailable' or 'skipped', or be a valid list, or be a valid dictionary; did you mean 'ok'?"),
        ("expect/*", {"stage": "compile"}, "expect.*: missing status"),
        ("targets/cpu/flags", ["-O3"], "targets.cpu.flags.0: found \"-O3\", which should match pattern '^(--.|[A-Za-z0-9])'"),
        ("models/a b", {}, "models.a b: found \"a b\", which should match pattern '^[A-Za-z0-9][A-Za-z0-9._+-]*$'"),
        ("tests", ..., "config: missing tests"),
        ("tests", ["eval", "eval"], "tests: found [\"eval\", \"eval\"], which should have each item once"),
        ("tests", {"eval": {}}, "tests: found {\"eval\": {}}, which should be a valid list; on the command line, names with commas between them"),
        ("train", {"name": "Adam", "betas": [0, 0.9]}, "train.betas.0: found 0, which should be greater than 0"),
        ("models/bert/tolerance", {"atol": 0.1}, "models.bert.tolerance.atol: unknown key 'atol'; did you mean 'tol'? (allowed: tol, cosine, small_tensor_multiplier, noise)"),
        ("measure/budget_s", float("nan"), "measure.budget_s: found NaN, which should be a finite number"),
        ("models/bert/scales", [1.0, float("nan")], "models.bert: found {\"seq_len\": 8, \"scales\": [1.0, NaN]}, which should have finite numbers, no dates"),
        ("models/bert/since", datetime.date(2024, 1, 1), "models.bert: found {\"seq_len\": 8, \"since\": \"2024-01-01\"}, which should have finite numbers, no dates"),
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
        ("a date", "measure: {generations: 2024-01-01}"),
    ],
)
def test_yaml_that_is_no_json_is_a_configuration_problem_too(key, text):
    with pytest.raises(ConfigError):
        settings.check(GOOD | yaml.safe_load(text))


def test_every_problem_is_reported_at_once():
    config = changed("targets/cpu/backend", "cpu") | {"measure": {"generations": -1}}
    with pytest.raises(ConfigError) as problem:
        settings.check(config)
    assert [line.split(":")[0] for line in str(problem.value).splitlines()] == [
        "targets.cpu.backend",
        "measure.generations",
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


@pytest.mark.parametrize("text", ["train", "eval,train", "*"])
def test_tests_on_the_command_line_are_a_selection_and_those_of_the_files_stay_declared(
    tmp_path, text
):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(GOOD))
    declared, selections = settings.load(GOOD | {"tests": text}, [tmp_path / "a.yaml"])
    assert selections == {"tests": text}
    assert declared == GOOD


def test_an_empty_key_of_a_file_is_an_empty_mapping_and_no_selection(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(GOOD | {"baselines": None}))
    declared, selections = settings.load({}, [tmp_path / "a.yaml"])
    assert selections == {}
    assert declared["baselines"] == {}
    assert declared["models"] == GOOD["models"]


@pytest.mark.parametrize("key", [*settings.SELECTABLE, "measure", "limits"])
def test_nothing_after_a_key_of_the_command_line_is_refused(key):
    with pytest.raises(ConfigError, match=rf"^{key}: found nothing after `{key}=`; "):
        settings.load(GOOD | {key: None}, [])


@pytest.mark.parametrize("key", ["filter", "exclude", "retry", "suites"])
def test_an_empty_text_of_the_command_line_is_none(key, tmp_path):
    assert settings.load(GOOD | {key: None}, []) == (GOOD, {})


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (True, "True"), (2.5, "2.5")])
def test_a_number_on_the_command_line_is_a_selection_by_that_name(tmp_path, value, text):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(GOOD))
    _, selections = settings.load({"models": value}, [tmp_path / "a.yaml"])
    assert selections == {"models": text}
    with pytest.raises(ConfigError, match=f"unknown model '{text}'; there are: bert, resnet"):
        reading.select("model", ["resnet", "bert"], selections["models"])


@pytest.mark.parametrize("key", ["filter", "exclude", "retry"])
def test_a_number_is_text_where_a_text_is_wanted(key):
    assert settings.load(GOOD | {key: 18}, [])[0][key] == "18"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("measure={generations: 2, budget_s: 1, slice_s: 1e-1}", {"generations": 2, "budget_s": 1, "slice_s": 0.1}),
        ("measure={'generations': 2, collect: [profiler]}", {"generations": 2, "collect": ["profiler"]}),
        ("models={bert: {batch_size: [1, 8], seq_len: 16, size: 18, pretrained: true}}", {"bert": {"batch_size": [1, 8], "seq_len": 16, "size": 18, "pretrained": True}, "resnet": {"size": 18}}),
        ("models={bert: {tolerance: {tol: 1e-2, cosine: false}}}", {"bert": {"seq_len": 8, "tolerance": {"tol": 0.01, "cosine": False}}, "resnet": {"size": 18}}),
        ("models={mine: {layers: 3, eps: 1e-5, name: x}}", {"bert": {"seq_len": 8}, "resnet": {"size": 18}, "mine": {"layers": 3, "eps": 1e-5, "name": "x"}}),
        ("suites=[timm/resnet18, {hf/bert: {seq_len: 16}}]", ["timm/resnet18", {"hf/bert": {"seq_len": 16}}]),
        ("kernels={select: [{softmax: {shape: 4096, dtype: f32}}]}", {"select": [{"softmax": {"shape": "4096", "dtype": "f32"}}]}),
        ("targets={cpu: {default: true, arch: 18, tuned: false}}", {"cpu": {"backend": "llvm-cpu", "flags": ["--x"], "default": True, "arch": "18", "tuned": False}}),
        ("nodes={gpu: {gpu: 1, gpu_model: 100}}", {"gpu": {"gpu": 1, "gpu_model": "100"}}),
        ("toolchains={x: {iree: 3.10}}", {"x": {"iree": "3.10"}}),
        ("operators={smallest: null}", {"smallest": None}),
        ("tests=[eval]", ["eval"]),
        ("expect={x/*: error}", {"*": "ok", "x/*": "error"}),
    ],
)  # fmt: skip
def test_texts_of_the_command_line_become_the_numbers_that_are_wanted(tmp_path, argument, value):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(GOOD))
    [key] = given_config = parse_config([argument])
    declared, _ = settings.load(given_config, [tmp_path / "a.yaml"])
    assert yaml.safe_dump(declared[key]) == yaml.safe_dump(value)


def test_a_list_or_a_text_of_a_file_is_no_selection(tmp_path):
    for text in ("models: [bert]", "models: bert"):
        (tmp_path / "b.yaml").write_text(text)
        with pytest.raises(
            ConfigError, match=r"models: found .*, which should be a valid dictionary"
        ):
            settings.load({}, [tmp_path / "b.yaml"])


def test_a_change_of_one_alias_leaves_the_others(tmp_path):
    (tmp_path / "a.yaml").write_text("limits: {env: &l {timeout_s: 1}, compile: *l}\nmeasure: {}\n")
    given_config = {key: value for key, value in GOOD.items() if key not in ("limits", "measure")}
    more = {"limits": {stage: {"timeout_s": 2} for stage in GOOD["limits"] if stage != "compile"}}
    declared, _ = settings.load(given_config | more, [tmp_path / "a.yaml"])
    assert (declared["limits"]["env"], declared["limits"]["compile"]) == (
        {"timeout_s": 2},
        {"timeout_s": 1},
    )


@pytest.fixture
def asked(tmp_path):
    """A function from what the command line says to the number of repetitions it ends with."""
    own, one, two = (tmp_path / f"{name}.yaml" for name in ("config", "one", "two"))
    own.write_text(yaml.safe_dump(GOOD))
    one.write_text(yaml.safe_dump(GOOD | {"measure": {"generations": 6}}))
    two.write_text("measure: {generations: 7}")

    def read(names: str, config=None, replace=False, present=True) -> int:
        files = [tmp_path / f"{name}.yaml" for name in names.split()]
        line = SimpleNamespace(
            config=config or {}, configfiles=files, replace_workflow_config=replace
        )
        path = own if present else tmp_path / "nowhere.yaml"
        return settings.read(line, path)[0]["measure"]["generations"]

    return read


def test_files_of_the_command_line_come_after_the_workflows_own_and_its_values_last(asked):
    assert asked("") == 5
    assert asked("one") == asked("two one") == 6
    assert asked("one two") == 7
    assert asked("one two", {"measure": {"generations": "8"}}) == 8


def test_they_stand_in_its_place_where_asked_or_where_there_is_none(asked):
    assert asked("one", replace=True) == asked("one", present=False) == 6
    with pytest.raises(ConfigError, match="config: missing models"):
        asked("two", replace=True)
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read"):
        asked("", present=False)


NAMES = ("reference/env", "frontends/mlir/env", "frontends/mlir/exporter", "baselines/eager/env", "baselines/eager/runtime", "targets/cpu/arch", "targets/cpu/device", "targets/cpu/node", "baselines/eager/node", "baselines/eager/program")  # fmt: skip


@pytest.mark.parametrize(
    "name", ["../x", "a b", "a;b", "$(id)", "a\n", "`a`", "", "-a", "a'", 'a"']
)
@pytest.mark.parametrize("path", NAMES)
def test_a_name_that_reaches_a_shell_or_a_path_has_no_character_of_theirs(path, name):
    with pytest.raises(ConfigError, match=path.replace("/", ".")) as problem:
        settings.check(changed(path, name))
    assert "which should match pattern" in str(problem.value)


@pytest.mark.parametrize("key", ["gpu_model", "gpu_manufacturer", "machine_type", "gres", "constraint", "slurm_partition", "slurm_account", "qos"])  # fmt: skip
@pytest.mark.parametrize("text", ["a b", "a;b", "$(id)", "a'b", "a\n", ""])
def test_what_a_scheduler_is_given_has_no_character_of_a_shell(key, text):
    with pytest.raises(ConfigError, match=rf"nodes\.big\.{key}: found"):
        settings.check(GOOD | {"nodes": {"big": {key: text}}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("targets/cpu/arch", "gfx942:sramecc+:xnack-"),
        ("targets/cpu/arch", "vp_android_baseline_2022"),
        ("targets/cpu/device", "cuda://GPU-1b2c?x=1&y=2"),
        ("nodes", {"big": {"gres": "gpu:a100:2,shard:1", "constraint": "(a100|h100)&ib*2", "slurm_partition": "gpu,long"}}),
        ("models/bert/file", "~/meine Modelle/größe 1.2.py"),
    ],
)  # fmt: skip
def test_what_names_may_hold_passes(path, value):
    settings.check(changed(path, value))


def test_a_name_ends_where_its_text_does():
    with pytest.raises(ConfigError, match="found"):
        settings.check(changed("models", {"conv\n": {}}))
    with pytest.raises(ConfigError, match=r"models\.bert\.file: found"):
        settings.check(changed("models/bert/file", "a\nb.py"))


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
    assert reading.select("model", KNOWN, wanted) == chosen


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("resnt", "unknown model 'resnt'; did you mean 'resnet'?"),
        ("bert,zz*", "unknown model 'zz*'; there are: bert, resnet, resnext, vit"),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_the_nearest(wanted, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        reading.select("model", KNOWN, wanted)


def test_where_nothing_is_known_the_message_says_none():
    assert reading.unknown("baseline", "x", []) == "unknown baseline 'x'; there are: none"


def test_of_no_models_none_are_left_and_that_is_no_problem():
    assert expansion.filter_names([], "res", None) == []


@given(st.text(), st.text())
def test_any_filter_splits_the_models_or_is_a_configuration_problem(wanted, unwanted):
    try:
        left = expansion.filter_names(KNOWN, wanted, unwanted)
    except ConfigError:
        return
    assert left
    assert left == [name for name in KNOWN if name in left]


@given(st.lists(st.text(), min_size=1, max_size=40), st.data())
def test_batches_are_a_partition_of_nearly_equal_parts(names, data):
    count = data.draw(st.integers(1, len(names)))
    parts = [expansion.batch_of(names, f"{number}/{count}") for number in range(1, count + 1)]
    assert [name for part in parts for name in part] == names
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    "batch", ["", "3", "0/3", "4/3", "-1/3", "1/0", "a/b", "1/3/4", " 1/3", "1/9999999"]
)
def test_what_is_no_batch_is_refused(batch):
    with pytest.raises(ConfigError, match=r"batch: found .*, expected .* such as 3/10"):
        expansion.batch_of(["a"], batch)


def test_more_batches_than_models_are_refused():
    with pytest.raises(ConfigError, match="there are 2 models"):
        expansion.batch_of(["a", "b"], "1/3")
