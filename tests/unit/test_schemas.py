"""schemas: sets of values come from their declarations."""

import pytest

from scripts.matrix import schemas
from scripts.supervise import outcome


def test_every_set_of_values_is_there_and_names_each_once():
    for name, allowed in schemas.values().items():
        assert allowed, name
        assert len(set(allowed)) == len(allowed), name


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("device_kind", ["cpu", "vulkan", "cuda", "rocm"]),
        ("phase", ["forward", "prefill", "decode"]),
        ("status", list(outcome.STATUSES)),
    ],
)
def test_values_are_those_that_the_code_declares(name, allowed):
    assert schemas.values()[name] == allowed
