"""precision: what a run computes in, and whose tolerance its results have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.matrix import choices
from scripts.verify import torch_same

FLAGS = st.fixed_dictionaries(
    {"force_amp": st.booleans(), "force_fp16": st.booleans(), "amp_bf16": st.booleans()}
)
DEVICES = st.sampled_from(["cpu", "cuda", "xpu", "vulkan"])


@pytest.mark.parametrize(
    ("device", "test", "listed", "expected"),
    [
        ("cpu", "eval", "", "none"),
        ("cpu", "train", "force_amp force_fp16 amp_bf16", "none"),
        ("cuda", "eval", "", "bf16"),
        ("cuda", "eval", "force_fp16", "fp16"),
        ("cuda", "eval", "force_amp", "amp-fp16"),
        ("cuda", "eval", "force_amp force_fp16", "amp-fp16"),
        ("cuda", "eval", "force_amp amp_bf16", "amp-bf16"),
        ("cuda", "eval", "amp_bf16", "bf16"),  # a type for autocast is no wish for it
        ("cuda", "eval", "force_fp16 amp_bf16", "fp16"),
        ("cuda", "train", "", "amp-fp16"),
        ("cuda", "train", "force_fp16", "amp-fp16"),
        ("cuda", "train", "amp_bf16", "amp-bf16"),
        ("vulkan", "eval", "", "bf16"),
        ("vulkan", "eval", "force_fp16", "fp16"),
        ("vulkan", "eval", "force_amp", "amp-bf16"),
        ("xpu", "train", "", "amp-bf16"),
    ],
)
def test_the_policy_is_that_of_torchbench(device, test, listed, expected):
    flags = {name: name in listed.split() for name in ("force_amp", "force_fp16", "amp_bf16")}
    assert choices.torchbench_policy(device, test, **flags) == expected


@given(DEVICES, st.sampled_from(choices.TESTS), FLAGS)
def test_the_policy_speaks_the_vocabulary_and_leaves_the_cpu_alone(device, test, flags):
    found = choices.torchbench_policy(device, test, **flags)
    assert found in choices.PRECISIONS
    assert (found == "none") == (device == "cpu")
    if test == "train" and device != "cpu":
        assert found.startswith("amp-")


def test_a_test_that_is_not_known_is_refused_on_every_device():
    with pytest.raises(ValueError, match=r"test: found 'training', allowed is one of eval, train"):
        choices.torchbench_policy("cpu", "training", force_amp=False, force_fp16=False)


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


@pytest.mark.parametrize(
    ("dtype", "name", "message"),
    [
        ("float32", "none", "dtype: found 'float32', allowed is one of f32, f16, bf16"),
        ("f32", "amp", "precision: found 'amp', allowed is one of none, fp16, bf16, amp-fp16, amp-bf16"),
    ],
)  # fmt: skip
def test_what_is_not_in_the_vocabulary_is_refused(dtype, name, message):
    with pytest.raises(ValueError) as problem:  # noqa: PT011 - the message is compared whole
        choices.compute_dtype(dtype, name)
    assert str(problem.value) == message
