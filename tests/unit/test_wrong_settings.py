"""Wrong configurations, made from the schema of the settings: each is refused with its key, before any work."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.core import machine
from scripts.matrix import sections
from scripts.matrix.settings import ConfigError, read
from scripts.run import starting

ROOT = Path(__file__).parents[2]
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


def refused(config: dict, folder: Path) -> str:
    """What is said before a run of a configuration file, over that of the checkout; "" if nothing is wrong."""
    file = folder / "wrong.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    line = SimpleNamespace(config=None, configfiles=[file], replace_workflow_config=False)
    try:
        run = starting.of_configuration(*read(line, ROOT / "config.yaml"), with_conda=False)
        return "\n".join(starting.problems(run, may_submit=False))
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
    run = SimpleNamespace(matrix=matrix, plan=SimpleNamespace(with_conda=True))
    assert "found 999" in starting.problems(run, may_submit=False)[0]
    assert starting.problems(run, may_submit=True) == []
    run.matrix = dataclasses.replace(matrix, targets={}, baselines={})
    assert starting.problems(run, may_submit=False) == []


DRY_RUNS = """
import os, sys
import snakemake.cli

for file in sys.argv[2:]:
    if not (child := os.fork()):
        try:
            snakemake.cli.main(["-s", sys.argv[1], "-n", "--configfile", file])
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code)
        os._exit(99)
    print("ENDED", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Dry runs of several configuration files by one process, which imports Snakemake once."""


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
    files = [tmp_path / f"{number}.json" for number in range(len(wrong))]
    for file, (place, value) in zip(files, wrong.items(), strict=True):
        file.write_text(json.dumps(configured(tuple(place.split(".")), value)), encoding="utf-8")
    folder = tmp_path / "run"
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", DRY_RUNS, ROOT / "Snakefile", *files],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    *said, rest = ran.stdout.split("ENDED 1\n")
    assert rest == ""
    for place, text in zip(wrong, said, strict=True):
        assert f"\n{place}" in text
        assert "Traceback" not in text
        assert len(text) < 2000
    assert [path.name for path in folder.iterdir()] in ([], [".snakemake"])
