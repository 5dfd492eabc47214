"""Kernels in torch: the declared bytes are those of the tensors, and gradients are those of autograd."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.core import exits
from scripts.tools.kernels import kernels
from tests.checkouts import in_environment

ROOT = Path(__file__).parents[2]
SMALL = {
    "attention": "1x2x8x16",
    "rotary_embedding": "1x2x8x16",
    "swiglu": "8x32",
    "int4_product": "4x64x32",
    "embedding_bag": "8x4x16",
}
"""A small shape of each kernel; the others take rows × columns."""
SHAPES = {name: SMALL.get(name, "16x32") for name in kernels.names(ROOT)}
BACKWARD = [name for name in SHAPES if name.endswith("_backward")]


@pytest.fixture(scope="module")
def answers(environments):
    python = environments / "torch-mlir/bin/python"
    # Triton reads TRITON_INTERPRET when it is imported, which the forked processes have done before.
    return in_environment(python, "kernels_in_torch", case=SHAPES, fork=False)


@pytest.mark.parametrize("name", SHAPES)
def test_the_declared_bytes_are_those_of_the_inputs_and_results(answers, name):
    found = answers["observed"][name]
    assert found["declared"].keys() == found["inputs"].keys()
    for tensor, size in found["declared"].items():
        if tensor in found["partly_read"]:
            assert size < found["inputs"][tensor]
        else:
            assert size == found["inputs"][tensor], tensor
    assert found["written"] == found["results"]
    assert found["finite"]


@pytest.mark.parametrize("name", BACKWARD)
def test_every_gradient_is_that_of_autograd_from_statistics_of_the_inputs(answers, name):
    assert answers["errors"][name] < 1e-4


def test_the_kernels_in_triton_compute_the_same(answers):
    assert {"softmax_forward", "layer_norm_forward", "swiglu"} <= answers["triton"].keys()
    assert max(answers["triton"].values()) < 1e-5


@pytest.mark.parametrize(
    ("case", "code", "said"),
    [
        ("missing", exits.UNAVAILABLE, "no package a-library in this environment"),
        ("other-kernel", exits.UNSUPPORTED, "a_library has no kernel attention; it has swiglu"),
        ("model", exits.UNSUPPORTED, "a_library has no kernel m; it has swiglu"),
    ],
)
def test_a_library_that_is_missing_or_lacks_a_kernel_says_so(answers, case, code, said):
    assert answers["refused"][case][0] == code
    assert said in answers["refused"][case][1]
