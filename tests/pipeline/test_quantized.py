"""4-bit weights, 8-bit activations and rotations: correct within the theoretical bound in both
environments, and wrong ones are detected."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.checkouts import ROOT, Answering, params


@pytest.fixture(scope="module", params=params(("torch-mlir", "torch-xla"), ["torch-xla"]))
def torch(request, environments):
    python = environments / request.param / "bin/python"
    with Answering(python, "quantized_in_torch") as answers:
        yield lambda case, **options: answers([case, options])


def test_every_pair_of_values_has_its_byte(torch):
    pairs = [[first, second] for first in range(-8, 8) for second in range(-8, 8)]
    found = torch("packing", values=pairs)
    assert found["values"] == pairs
    assert found["bytes"] == [[(a & 15) | (b & 15) << 4] for a, b in pairs]
    assert found["dtype"] == "torch.int8"


@settings(max_examples=30, deadline=None)
@given(
    values=hnp.arrays(
        np.int8,
        st.tuples(st.integers(1, 5), st.integers(1, 9).map(lambda n: 2 * n)),
        elements=st.integers(-8, 7),
    )
)
def test_packing_loses_nothing_and_halves_a_row(torch, values):
    found = torch("packing", values=values.tolist())
    assert found["values"] == values.tolist()
    assert np.shape(found["bytes"]) == (values.shape[0], values.shape[1] // 2)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 6),
    groups=st.integers(1, 4),
    group_size=st.sampled_from([2, 8, 32, 64]),
    spread=st.floats(1e-3, 1e3),
    bits=st.sampled_from([4, 8]),
    seed=st.integers(0, 2**31),
)
def test_a_weight_is_at_most_half_a_step_off(torch, rows, groups, group_size, spread, bits, seed):
    found = torch("rounding", rows=rows, groups=groups, group_size=group_size, spread=spread, bits=bits, seed=seed)  # fmt: skip
    # Half a step, and the rounding of weight / scale in float32.
    assert found["error"] <= 0.5 + 2**bits * 2.0**-23
    assert -(2 ** (bits - 1)) <= found["least"] <= found["most"] < 2 ** (bits - 1)
    assert found["scales"] == [rows, groups]


def test_activations_are_torchaos_and_have_a_float64_form(torch):
    found = torch("activations", seed=0)
    assert found["difference"] == 0
    assert found["levels"] <= 256
    assert found["dtype"] == "torch.float64"


@pytest.mark.parametrize(
    ("hidden", "intermediate", "tied"),
    [(128, 256, True), (192, 384, True), (160, 320, False)],
    ids=["powers of two", "times 12", "times 20"],
)
def test_a_rotated_model_is_the_same_function(torch, hidden, intermediate, tied):
    found = torch("rotation", hidden=hidden, intermediate=intermediate, tied=tied)
    assert found["error"] < 2e-5
    assert found["moved"] >= 2 * 7 + 2
    assert found["norms"] == [1.0]
    assert not found["tied"]


@pytest.mark.parametrize("kind", ["qlora", "spinquant"])
def test_a_weight_takes_four_bits_and_a_scale(torch, kind):
    found = torch("sizes", kind=kind)
    assert found["linears"] == 2 * 7
    assert found["bits"] == 4 + 32 / 32
    assert found["tied"] == (kind == "qlora")
    assert all(".a." in name or ".b." in name for name in found["floats"])
    assert len(found["floats"]) == (28 if kind == "qlora" else 0)
    # Not the float model itself, and far from noise alone (0 dB).
    assert 5 < found["sqnr_db"] < 40


@pytest.mark.parametrize("kind", ["qlora", "spinquant"])
def test_wrong_programs_fail_at_the_tolerance_of_the_entry(torch, kind):
    shipped = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    tolerance = shipped["models"][f"llama-{kind}"]["tolerance"]
    verdicts = torch("mutations", kind=kind, tolerance=tolerance)
    assert verdicts.pop("right") == verdicts.pop("right again") == "PASS"
    assert len(verdicts) == {"qlora": 14 * 3, "spinquant": 14 * 2 + 2}[kind]
    assert [name for name, code in verdicts.items() if code != "FAIL"] == []
