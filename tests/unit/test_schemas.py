"""schemas: sets of values come from their declarations, including that of a made-up backend."""

import pytest

from scripts.matrix import schemas
from scripts.supervise import outcome


def test_every_definition_has_values_or_a_type_of_its_own():
    for name, body in schemas.read("config")["$defs"].items():
        assert body.get("enum") or body.keys() - {"$comment"} - {"enum"}, name


def test_every_set_of_values_is_there_and_names_each_once():
    for name, allowed in schemas.values().items():
        assert allowed, name
        assert len(set(allowed)) == len(allowed), name


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("backend", ["llvm-cpu", "vulkan", "cuda", "rocm"]),
        ("baseline_device", ["cpu", "cuda"]),
        ("baseline_precision", ["none", "fp16", "bf16", "amp-fp16", "amp-bf16", "torchbench"]),
        ("device_kind", ["cpu", "vulkan", "cuda", "rocm"]),
        ("ir_format", ["text", "bytecode"]),
        ("phase", ["forward", "prefill", "decode"]),
        ("status", list(outcome.STATUSES)),
    ],
)
def test_values_are_those_that_the_code_declares(name, allowed):
    assert schemas.values()[name] == allowed
