"""Wrong configurations, made from the schema of the settings: each is refused with its key, before any work."""

import dataclasses
import json
import os
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.cli import run
from scripts.config import sections
from scripts.config.settings import ConfigError, read
from scripts.core import machine
from scripts.run import environments, starting
from tests.checkouts import ROOT, Checkout

BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
ENTRY = {
    "models": "bert",
    "frontends": "torchmlir-torch",
    "targets": "llvm-cpu",
    "baselines": "inductor",
    "toolchains": "iree-3.12",
    "expect": "*/*/cuda",
    "overrides": "bert",
    "dynamic": "batch_size",
}
"""An entry of each mapping by names, whose values are replaced."""
NEEDED = {
    ("expect", "*/*/cuda"): {"status": "ok"},
    ("models", "bert", "dynamic", "batch_size"): {"values": [1, 8]},
    ("limits", "operators"): {"timeout_s": 60},
}
"""What an entry needs besides a value."""


def with_bounds(part):
    """A part of pydantic's JSON schema, with the bounds of numbers under their names in JSON Schema."""
    if isinstance(part, list):
        return [*map(with_bounds, part)]
    if not isinstance(part, dict):
        return part
    return {BOUNDS.get(key, key): with_bounds(value) for key, value in part.items()}


SCHEMA = with_bounds(sections.CONFIGURATION.json_schema())


def places(schema: dict, place: tuple[str, ...] = ()):
    """Each place of the configuration, with its part of the schema. A new name is `zzz`."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if schema is SCHEMA["$defs"]["JsonValue"]:
        return
    if place:
        yield place, schema
    for name, inner in schema.get("properties", {}).items():
        yield from places(inner, (*place, name))
    for form in schema.get("anyOf", ()):
        yield from ((p, inner) for p, inner in places(form, place) if p != place)
    entries = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
    for inner in filter(lambda one: isinstance(one, dict), entries):
        yield from places(inner, (*place, ENTRY.get(place[-1], "zzz")))


PLACES = dict(places(SCHEMA))
TEXTS = st.sampled_from(
    ["zzz", "../zzz", "/etc/passwd", "z;id", "$(id)", "z\n", "\x1b[2J", "<b>", "", "-z", "z" * 500]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 1),
    st.sampled_from([10**20, 10**400, -(10**20), 1e308]),
    st.floats(),
    TEXTS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def is_wrong(place: tuple[str, ...], value) -> bool:
    """Whether a value has not the form that the schema wants. In a file, an empty section is one without keys to merge, and 0 is false."""
    if (value in (None, {}) and len(place) < 3) or (
        value == 0 and place[-1] in ("tuned", "remedies")
    ):
        return False
    schema = jsonschema.Draft202012Validator(PLACES[place] | {"$defs": SCHEMA["$defs"]})
    return not schema.is_valid(value)


def configured(place: tuple[str, ...], value) -> dict:
    """A configuration file that sets a value, with what is needed beside it."""
    for depth in range(len(place) - 1, -1, -1):
        value = NEEDED.get(place[:depth], {}) | {place[depth]: value}
    return value


def refused(config: dict | bytes, folder: Path) -> str:
    """What is said before a run of a configuration file, over that of the checkout; "" if nothing is wrong."""
    file = folder / "wrong.yaml"
    file.write_bytes(config if isinstance(config, bytes) else yaml.safe_dump(config).encode())
    line = SimpleNamespace(config=None, configfiles=[file], replace_workflow_config=False)
    try:
        begun = starting.of_configuration(*read(line, ROOT / "config.yaml"), with_conda=False)
        return "\n".join(starting.problems(begun, may_submit=False))
    except ConfigError as problem:
        return str(problem)


@settings(max_examples=300)
@given(st.sampled_from([*PLACES]), VALUES)
def test_a_value_of_another_form_is_refused_with_its_key(tmp_path, place, value):
    said = refused(configured(place, value), tmp_path)
    if is_wrong(place, value):
        assert ".".join(place) in said


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("measure.threads", [1, 999], "measure.threads: found 999, but this process may use 2 CPUs; set 2 or less, or"),
        ("measure.threads", 3, "measure.threads: found 3, but this process may use 2 CPUs"),
        ("train.name", ["SGD"], 'train.name: found ["SGD"], which should be'),
        ("models.bert.dynamic.batch_size.min", 10**400, "models.bert.dynamic.batch_size.min: found 1000"),
        ("limits.compile.memory_mb", 1e308, "limits.compile.memory_mb: found 1e+308, which should be less than"),
        ("limits.compile.memory_mb", 0.5, "limits.compile.memory_mb: found 0.5, which should be greater than"),
        ("expect.*/*/cuda.stage", "compiles", "did you mean 'compile'?"),
        ("targets.llvm-cpu.device", "vulkan", "targets.llvm-cpu.device: found 'vulkan', programs of llvm-cpu run on local-task"),
        ("operators.dataset", "../zzz", "operators.dataset: no file ../zzz"),
        ("targets.llvm-cpu.node", "zzz", "targets.llvm-cpu.node: unknown node 'zzz'"),
        ("targets.llvm-cpu.remedies", ["zzz"], "targets.llvm-cpu.remedies: unknown remedy 'zzz'"),
        ("targets.llvm-cpu.frontends", ["zzz"], "targets.llvm-cpu.frontends: unknown frontend 'zzz'"),
        ("frontends.torchmlir-torch.exporter", "zzz", "frontends.torchmlir-torch.exporter: unknown exporter 'zzz'"),
        ("baselines.inductor.runtime", "zzz", "baselines.inductor.runtime: unknown runtime 'zzz'"),
        ("reference.env", "zzz", "reference.env: unknown env 'zzz'"),
        ("baselines.inductor.env", "zzz", "baselines.inductor.env: unknown env 'zzz'"),
        ("expect", {"zzz/*": "ok"}, "expect.zzz/*: matches no cell"),
        ("retry", "zzz", "unknown retry status 'zzz'"),
        ("filter", "(", "filter/exclude: '(' is no regular expression"),
    ],
)  # fmt: skip
def test_what_only_the_machine_or_other_entries_show_is_refused_too(
    tmp_path, monkeypatch, place, value, message
):
    monkeypatch.setattr(machine, "usable_cpus", lambda: [0, 1])
    assert message in refused(configured(tuple(place.split(".")), value), tmp_path)


def test_threads_are_not_limited_where_jobs_go_to_a_cluster_or_no_row_is_of_a_cpu(results):
    matrix = dataclasses.replace(results.matrix, measure={"threads": [999]})
    begun = SimpleNamespace(matrix=matrix, plan=SimpleNamespace(with_conda=True))
    assert "found 999" in starting.problems(begun, may_submit=False)[0]
    assert starting.problems(begun, may_submit=True) == []
    begun.matrix = dataclasses.replace(matrix, targets={}, baselines={})
    assert starting.problems(begun, may_submit=False) == []


def test_a_dry_run_ends_with_the_message_and_makes_nothing(tmp_path):
    wrong = {
        "measure.threads": [9_999, 1],
        "train.name": [[]],
        "models.bert.seq_len": 10**400,
        "limits.compile.memory_mb": float("inf"),
        "targets.llvm-cpu.flags": {"\x1b[2J": "<b>"},
        "baselines.inductor.device": "../cpu",
        "expect.*/*/cuda": ["ok", "okay"],
        "nodes.zzz.gres": "$(id)",
        "kernels.measure.slice_s": "fast",
        "frontends.torchmlir-torch.zzz": None,
    }
    file, folder = tmp_path / "wrong.json", tmp_path / "run"
    folder.mkdir()
    line = ("-s", ROOT / "Snakefile", "-n", "--configfile", file)
    for place, value in wrong.items():
        file.write_text(json.dumps(configured(tuple(place.split(".")), value)), encoding="utf-8")
        done = Checkout(folder).snakemake(*line, check=False)
        assert done.returncode == 1
        assert f"\n{place}" in done.stdout
        assert not any(noise in done.stdout for noise in ("Traceback", "WorkflowError", ".smk"))
        assert len(done.stdout) < 2000
    assert [path.name for path in folder.iterdir()] in ([], [".snakemake"])


BERT_OPTIONS = {"exporter": "torch_mlir", "env": "iree", "options": {"dialect": "torch", "rewrites": "all"}}  # fmt: skip
PROGRAM = "means nothing to eager; leave it out"
NOTHING = [
    ({"tune": {"targets": ["nosuch"]}}, "tune.targets: unknown target 'nosuch'; there are: cuda, llvm-cpu,"),
    ({"tune": {"targets": ["!*"]}}, "tune.targets: found ['!*'], which leaves out every target"),
    ({"kernels": {"targets": ["cuda9"]}}, "kernels.targets: unknown target 'cuda9'; did you mean 'cuda'?"),
    ({"kernels": {"frontends": ["nosuch"]}}, "kernels.frontends: unknown frontend 'nosuch'"),
    ({"kernels": {"baselines": ["!*"]}}, "kernels.baselines: found ['!*'], which leaves out every baseline"),
    ({"kernels": {"select": []}}, "kernels.select: found [], expected kernels or globs"),
    ({"targets": {"llvm-cpu": {"models": ["!*"]}}}, "targets.llvm-cpu.models: found ['!*'], which leaves out every model"),
    ({"targets": {"llvm-cpu": {"overrides": {"bert": {"frontends": ["!*"]}}}}}, "targets.llvm-cpu.overrides.bert.frontends: found ['!*']"),
    ({"baselines": {"eager": {"program": "mlir"}}}, f"baselines.eager.program: {PROGRAM}"),
    ({"baselines": {"eager": {"program": ["onnx-torch", "mlir"]}}}, f"baselines.eager.program: {PROGRAM}"),
    ({"baselines": {"eager": {"env": "iree"}}}, "baselines.eager.env: found 'iree', which has no torch; expected executorch or"),
    ({"baselines": {"xla-stablehlo": {"env": "torch-xla", "default": True}}}, "baselines.xla-stablehlo.env: found 'torch-xla', which has no jax"),
    ({"frontends": {"torchmlir-torch": BERT_OPTIONS}}, "frontends.torchmlir-torch.env: found 'iree', which has no torch-mlir, torch; expected torch-mlir"),
    ({"reference": {"env": "iree"}}, "reference.env: found 'iree', which has no torch"),
    ({"baselines": {"inductor": {"compile": {"options": {"nosuch_option": 1}}}}}, "baselines.inductor.compile.options.nosuch_option: torch._inductor.config of the environment torch-mlir has no such option"),
    ({"baselines": {"inductor": {"compile": {"options": {"max_autotune_gem": True}}}}}, "has no such option; did you mean 'max_autotune_gemm'?"),
    ({"baselines": {"xla": {"xla_flags": "--xla_nosuch=1", "default": True}}}, "library.so of the environment torch-xla does not know --xla_nosuch"),
    ({"baselines": {"xla": {"xla_flags": "--nosuch", "default": True}}}, "baselines.xla.xla_flags: found '--nosuch', expected flags of XLA"),
    ({"baselines": {"xla": {"xla_flags": "nosuch", "default": True}}}, "baselines.xla.xla_flags: found 'nosuch', expected flags such as"),
    ({"models": {"llama": {"phase": "decode", "seq_len": 128, "cache_len": 64}}}, "models.llama.cache_len: found 64, but seq_len is 128; expected a cache that holds the prompt"),
    ({"models": {"bert": {"batch_size": [1, 8], "dynamic": {"batch_size": {"values": [1, 8]}}}}}, "models.bert.batch_size: found the list [1, 8], and sizes of batch_size in dynamic; expected one of the two"),
    ({"suites": [{"timm/resnet18": {"batch_size": [1, 8], "dynamic": {"batch_size": {"values": [1, 8]}}}}]}, "suites.timm/resnet18.batch_size: found the list [1, 8]"),
    ({"torchbench": {"path": "/etc"}}, "torchbench.path: /etc has no folder torchbenchmark/models; expected a checkout of torchbenchmark"),
    ({"torchbench": {"path": "/no/such"}}, "torchbench.path: /no/such has no folder torchbenchmark/models"),
    *(
        ({"targets": {"llvm-cpu": {"flags": [flag]}}}, f"targets.llvm-cpu.flags: {flag} {why}; leave it out")
        for flag, why in (
            ("--help", "ends the compiler"), ("--help-hidden", "ends the compiler"), ("--version", "ends the compiler"),
            ("--iree-hal-list-target-backends", "ends the compiler"), ("--compile-to=flow", "changes what the compiler writes"),
            ("--compile-from=flow", "changes what the compiler writes"), ("--output-format=vm-asm", "changes what the compiler writes"), ("--o=/tmp/x", "changes what the compiler writes"),
            ("--iree-opt-level=O0", "is what the key opt_level sets"), ("--iree-hal-target-backends=cuda", "is what the key backend sets"),
            ("--iree-hal-target-device=cuda", "is what the key backend sets"), ("--iree-llvmcpu-target-cpu=znver4", "is what the key arch sets"),
            ("--iree-cuda-target=sm_90", "is what the key arch sets"), ("--iree-rocm-target=gfx942", "is what the key arch sets"),
        )
    ),
    ({"targets": {"llvm-cpu": {"flags": ["-o"]}}}, "targets.llvm-cpu.flags.0: found \"-o\", which should match"),
    ({"targets": {"llvm-cpu": {"overrides": {"bert": {"flags": ["--help"]}}}}}, "targets.llvm-cpu.overrides.bert.flags: --help ends the compiler"),
    ({"targets": {"llvm-cpu": {"overrides": {"bert": {"train": {"flags": ["--iree-opt-level=O0"]}}}}}}, "targets.llvm-cpu.overrides.bert.train.flags: --iree-opt-level=O0 is what the key opt_level sets"),
]  # fmt: skip
"""Settings that would have no effect, or another one than meant: a configuration file, and what is said of it."""


@pytest.mark.parametrize(("config", "message"), NOTHING, ids=range(len(NOTHING)))
def test_a_setting_that_means_nothing_is_refused(tmp_path, installed, config, message):
    assert message in refused(config, tmp_path)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Environments with the files of their packages that are asked."""
    files = {
        "torch-mlir": ("torch/_inductor/config.py", "max_autotune_gemm = False\nclass cpp:\n    threads: int = -1\nclass cuda(cpp):\n    arch = None\n"),
        "torch-xla": ("library.so", "\0xla_dump_to\0"),
    }  # fmt: skip
    monkeypatch.setattr(starting, "_XLA_LIBRARIES", {"torch-xla": "library.so"})
    for env, (name, text) in files.items():
        file = tmp_path / "envs" / env / "lib/python3.11/site-packages" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    monkeypatch.setattr(environments, "prefix", lambda env: str(tmp_path / "envs" / env))


@pytest.mark.parametrize(
    "config",
    [
        {"baselines": {"inductor": {"compile": {"options": {"max-autotune-gemm": True, "cpp.threads": 2, "cuda.threads": 2, "cuda.arch": "a"}}}}},
        {"baselines": {"xla": {"xla_flags": "--xla_dump_to=/tmp/a b", "default": True}}},
        {"kernels": {"select": []}, "suites": ["kernels/swiglu"]},
        {"models": {"llama": {"phase": "decode", "seq_len": 64, "cache_len": 128}}},
        {"models": {"bert": {"batch_size": 8, "dynamic": {"batch_size": {"values": [1, 8]}}}}},
        {"targets": {"llvm-cpu": {"flags": ["--iree-llvmcpu-target-cpu-features=+avx2"], "models": ["!gcn"]}}},
    ],
    ids=range(6),
)  # fmt: skip
def test_what_is_like_it_and_means_something_is_taken(tmp_path, installed, config):
    assert refused(config, tmp_path) == ""


def test_an_environment_without_a_lock_is_left_to_its_own_stage(tmp_path, monkeypatch):
    (tmp_path / "bad.lock").write_text("no lock")
    for lock in ("none.lock", "bad.lock"):
        starting._locked.cache_clear()
        monkeypatch.setattr(environments, "lock_file", lambda _, lock=lock: tmp_path / lock)
        problems = starting._package_problems("baselines.eager", "mine", ("torch",))
        assert [*problems] == []
    starting._locked.cache_clear()


TEXTS_OF_YAML = [
    (b"measure: {budget_s: 1:30}", 'measure.budget_s: found "1:30", which should be a valid number'),
    (b"measure: {budget_s: 2024-01-01}", 'measure.budget_s: found "2024-01-01", which should be a valid number'),
    (b"measure: {budget_s: 2024-13-01}", 'measure.budget_s: found "2024-13-01", which should be a valid number'),
    (b"measure: {generations: 0b11}", 'measure.generations: found "0b11", which should be a valid integer'),
    (b"measure: {generations: 1_0}", 'measure.generations: found "1_0", which should be a valid integer'),
    (b"measure: {until_decided: yes}", 'measure.until_decided: found "yes", which should be a valid boolean'),
    (b"remedies: off", 'remedies: found "off", which should be a valid boolean'),
    (b"measure: {generations: 08_}", 'measure.generations: found "08_"'),
    (b"measure: [\nmodels: {}", "wrong.yaml, line 2, column 11: no YAML"),
    (b"measure: {}\n# \xe9", "wrong.yaml, line 2: found the byte 0xe9, which is no UTF-8; save the file as UTF-8"),
    ("measure: {}".encode("utf-16"), "wrong.yaml, line 1: found the byte 0xff, which is no UTF-8"),
    (b"models: &m\n  a: *m", "wrong.yaml, line 2, column 6: no YAML: found an alias inside of what it stands for"),
    (b"models: !!int a", "wrong.yaml, line 1, column 9: no YAML: found a value that does not fit its type"),
    (b"measure: {budget_s: " + b"9" * 5000 + b"}", "no YAML: found a value that does not fit its type: Exceeds the limit"),
    (b"a: " + b"[" * 5000, "found more than 100 brackets inside each other"),
    (b"models: \x00", "wrong.yaml, line 1: special characters are not allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), TEXTS_OF_YAML, ids=range(len(TEXTS_OF_YAML)))
def test_a_file_that_is_not_yaml_1_2_of_settings_is_refused_with_its_line_or_key(
    tmp_path, text, message
):
    assert message in refused(text, tmp_path)


def test_numbers_are_those_of_yaml_1_2(tmp_path):
    (tmp_path / "a.yaml").write_text("measure: {generations: 010, budget_s: 08}")
    line = SimpleNamespace(config=None, configfiles=[tmp_path / "a.yaml"], replace_workflow_config=False)  # fmt: skip
    measure = read(line, ROOT / "config.yaml")[0]["measure"]
    assert (measure["generations"], measure["budget_s"]) == (10, 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, message) for text, message in TEXTS_OF_YAML if "wrong.yaml" in message),
        (b"a: 1\nmeasure: {budget_s: 2024-13-01}", "wrong.yaml, line 2, column 21: no YAML: found a value that does not fit its type: month must be in 1..12; Snakemake reads it as YAML 1.1: put the value in quotes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("option", ["--configfile", "--configfiles"])
def test_vmfbench_run_reads_configuration_files_before_snakemake_does(
    tmp_path, monkeypatch, capsys, option, text, message
):
    (tmp_path / "wrong.yaml").write_bytes(text)
    (tmp_path / "good.yaml").write_text("measure: {}")
    words = [option, str(tmp_path / "good.yaml"), str(tmp_path / "wrong.yaml"), "--cores", "1"]
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("started"))
    with pytest.raises(SystemExit) as ended:
        run.snakemake(words)
    assert ended.value.code == 1
    assert message in capsys.readouterr().err


LONG = "x" * 300
"""A name that no file can have."""


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("models.m.file", f"{LONG}.py"),
        ("models.m.file", f"/tmp/{LONG}/config.json"),
        ("models.m", {"file": "m.onnx", "inputs": LONG}),
        ("models.m", {"file": "m.pt2", "inputs": "a\0"}),
        ("models.m", {"file": "m.mlir", "parameters": [LONG]}),
        ("models.m", {"file": "m.mlir", "golden": "a\0"}),
        ("torchbench.file", LONG),
        ("torchbench.path", LONG),
        ("operators.dataset", f"{LONG}.json"),
        ("operators.traces", [LONG]),
        ("suites", [LONG]),
        ("suites", [f"timm/{LONG}"]),
        ("file", f"{LONG}.py"),
        ("targets.llvm-cpu.flags", [f"--iree-codegen-tuning-spec-path={LONG}"]),
    ],
)
def test_a_name_that_no_file_can_have_is_that_of_no_file(tmp_path, place, value):
    for name in ("m.onnx", "m.pt2", "m.mlir"):
        (tmp_path / name).write_bytes(b"func")
    config = configured(tuple(place.split(".")), value)
    if place == "models.m":
        config["models"]["m"]["file"] = str(tmp_path / value["file"])
    said = refused(config, tmp_path)
    assert place.split(".")[0] in said
    assert "\n" not in said
