"""given: values of `--config` get the types of the schema, although Snakemake passes text."""

import pytest
from snakemake.cli import parse_config

from scripts.matrix import given, schemas

SCHEMA = schemas.read("config")


def typed(argument: str):
    """The value of `--config <key>=…` as Snakemake parses it, then typed."""
    parsed = parse_config([argument])
    [value] = given.typed(parsed, SCHEMA, SCHEMA).values()
    return value


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("measure={repeat: 2, budget_s: 1, warmup_s: 0.5}", {"repeat": 2, "budget_s": 1, "warmup_s": 0.5}),
        ("measure={repeat: none}", {"repeat": "none"}),
        ("measure={collect: [profiler]}", {"collect": ["profiler"]}),
        ("limits={export: {timeout_s: 1e3, memory_mb: 5}}", {"export": {"timeout_s": 1000.0, "memory_mb": 5}}),
        ("models={bert: {batch_size: [1, 8], seq_len: 16, size: 18, pretrained: true}}", {"bert": {"batch_size": [1, 8], "seq_len": 16, "size": "18", "pretrained": True}}),
        ("models={bert: {tolerance: {tol: 1e-2, cosine: false}}}", {"bert": {"tolerance": {"tol": 0.01, "cosine": False}}}),
        ("models={mine: {layers: 3, eps: 1e-5, name: x}}", {"mine": {"layers": 3, "eps": 1e-5, "name": "x"}}),
        ("suites=[timm/resnet18, {hf/bert: {seq_len: 16}}]", ["timm/resnet18", {"hf/bert": {"seq_len": 16}}]),
        ("targets={x: {backend: llvm-cpu, default: true, arch: 18}}", {"x": {"backend": "llvm-cpu", "default": True, "arch": "18"}}),
        ("nodes={gpu: {gpu: 1, gpu_model: 100}}", {"gpu": {"gpu": 1, "gpu_model": "100"}}),
        ("tests=[eval]", ["eval"]),
        ("expect={a/b/c: ok}", {"a/b/c": "ok"}),
        ("measure={'repeat': 2}", {"repeat": 2}),
    ],
)  # fmt: skip
def test_texts_become_the_numbers_that_the_schema_wants(argument, value):
    assert typed(argument) == value
    assert repr(typed(argument)) == repr(value)


@pytest.mark.parametrize("value", [3, 2.5, True, None, {"repeat": 2}, {"repeat": 2.0}, ["a"]])
def test_what_has_a_type_keeps_it(value):
    assert given.typed({"measure": value}, SCHEMA, SCHEMA) == {"measure": value}
