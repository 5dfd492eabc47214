"""What must fail: programs changed after export, models whose calls have side effects, wrong gradients."""

from __future__ import annotations

import json

import pytest

from tests.checkouts import EAGER, ON_CPU, as_made, keep_models

STOCHASTIC = '''"""Two calls of it differ."""
import torch


class M(torch.nn.Module):
    def forward(self, x):
        return x + torch.rand(4)


def get_model():
    return M()


def get_dummy_input():
    return torch.randn(4)
'''
SQUARES = '''"""A function whose gradient is known: of mean(c * (w * x) ** 2), that is 2 c w x**2 / n."""
import torch


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(16))
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop((self.weight * x) ** 2)


def get_model():
    return M()


def get_dummy_input():
    return torch.randn(16)
'''
BF16 = {"runtime": "eager", "device": "cpu", "env": "torch-mlir", "precision": "bf16"}


@pytest.fixture(scope="module")
def checkout(make_checkout):
    made = make_checkout(
        "verification",
        models={},
        targets=ON_CPU,
        baselines=EAGER | {"eager-bf16": BF16, "eager-amp": BF16 | {"precision": "amp-bf16"}},
        tests=["eval", "train"],
    )
    keep_models(made, "conv")
    (made.path / "models/squares.py").write_text(SQUARES)
    (made.path / "models/stochastic.py").write_text(STOCHASTIC)
    made.run = lambda *more: made.snakemake(
        *("--cores", "2", "results/latency.csv", "--config", "frontends=torchmlir-stablehlo"), *more
    )
    made.run()
    return made


def baseline(checkout, model: str, name: str, test: str) -> dict[str, str]:
    found = [
        row
        for row in checkout.rows()
        if (row["model"], row["target"] or row["runtime"], row["test"]) == (model, name, test)
    ]
    assert len(found) == 1
    return found[0]


def test_a_model_that_is_no_function_of_its_inputs_is_nondeterministic(checkout):
    cell = checkout.row("stochastic", "torchmlir-stablehlo", "llvm-cpu")
    for row in (cell, baseline(checkout, "stochastic", "eager", "eval")):
        assert row["verification_code"] == "NONDETERMINISTIC_EAGER_RUN", row
        assert (row["status"], row["reason"]) == ("error", "nondeterministic-eager")
        # Nothing is exported or compiled that could never count.
        assert (row["stage"], row["blocked_by"]) == ("reference", "reference stochastic")
        assert not row["latency_ms"]


@pytest.mark.parametrize("name", ["eager", "eager-bf16", "eager-amp"])
@pytest.mark.parametrize("test", ["eval", "train"])
@pytest.mark.parametrize("model", ["conv", "squares"])
def test_a_precision_is_held_to_eager_in_that_precision(checkout, model, name, test):
    row = baseline(checkout, model, name, test)
    assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row["detail"]
    assert row["precision"] == {"eager-bf16": "bf16", "eager-amp": "amp-bf16"}.get(name, "none")
    # A speedup over eager in another precision would be no speedup.
    assert float(row["speedup_vs_eager"]) == pytest.approx(1.0)


def test_the_gradient_is_that_of_the_model_without_its_dropout(checkout):
    import numpy as np

    stored = np.load(checkout.path / "results/gradients/squares/golden.npz")
    inputs = np.load(checkout.path / "results/reference/squares/inputs.npz")
    signature = json.loads((checkout.path / "results/gradients/squares/signature.json").read_text())
    names = [o["name"] for o in signature["outputs"]]
    assert names == ["loss", "gradient of weight", "change of weight"]
    x, c = inputs["0"], stored["cotangent.0"]
    output = np.load(checkout.path / "results/reference/squares/golden.npz")["golden.0"]
    assert stored["golden.0"] == pytest.approx((output * c).mean(), rel=1e-5)
    weight = np.sqrt(output) / np.abs(x)
    expected = np.abs(2 * c * weight * x**2 / 16)
    assert np.abs(stored["golden.1"]) == pytest.approx(expected, rel=1e-4)
    # The change is of weights in float32, which rounds it.
    assert stored["golden.2"] == pytest.approx(-0.01 * stored["golden.1"], rel=1e-3, abs=6e-8)


def test_a_wrong_gradient_fails_and_has_no_latency(checkout):
    golden = checkout.path / "results/gradients/squares/golden.npz"
    import numpy as np

    arrays = dict(np.load(golden))
    for key in ("golden.1", "fp64.1"):
        arrays[key] = arrays[key] * 1.05
    np.savez(golden, **arrays)
    as_made(golden)
    checkout.run("models=squares", "baselines=eager", "tests=train")
    row = baseline(checkout, "squares", "eager", "train")
    assert (row["status"], row["reason"]) == ("error", "wrong-result")
    assert row["verification_code"] == "FAIL"
    assert "gradient of weight" in row["detail"]
    assert not row["latency_ms"]


def test_a_program_altered_after_export_fails_and_has_no_latency(checkout):
    program = checkout.path / "results/export/conv/torchmlir-stablehlo/program.mlir"
    text = program.read_text()
    # ReLU's threshold of 0, a little higher.
    altered = text.replace("dense<0.000000e+00>", "dense<1.000000e-01>")
    assert altered != text
    program.write_text(altered)
    as_made(program)
    checkout.run("models=conv", "baselines=eager", "tests=eval")
    row = checkout.row("conv", "torchmlir-stablehlo", "llvm-cpu")
    assert (row["status"], row["reason"]) == ("error", "wrong-result"), row
    assert row["verification_code"] == "FAIL"
    assert float(row["max_abs_error"]) > 0.01
    assert not row["latency_ms"]
    assert "beyond tol" in row["detail"]
