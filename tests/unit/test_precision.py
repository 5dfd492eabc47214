"""precision: what a run computes in, and whose tolerance its results have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.config import choices
from scripts.measure.verify import torch_same


@pytest.mark.parametrize(
    ("precision_", "of_f32", "of_f16", "of_bf16"),
    [
        ("none", "f32", "f16", "bf16"),
        ("fp16", "f16", "f16", "f16"),
        ("bf16", "bf16", "bf16", "bf16"),
        ("amp-fp16", "f16", "f16", "bf16"),
        ("amp-bf16", "bf16", "bf16", "bf16"),
    ],
)
def test_results_have_the_tolerance_of_what_they_are_computed_in(
    precision_, of_f32, of_f16, of_bf16
):
    found = [choices.compute_dtype(dtype, precision_) for dtype in ("f32", "f16", "bf16")]
    assert found == [of_f32, of_f16, of_bf16]


@given(st.sampled_from(choices.DTYPES), st.sampled_from(choices.PRECISIONS))
def test_every_dtype_that_results_may_have_has_a_tolerance(dtype, name):
    assert choices.compute_dtype(dtype, name) in torch_same.TOLERANCES
