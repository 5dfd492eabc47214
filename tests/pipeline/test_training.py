"""Captured training steps compute what the eager step computes, with each optimizer."""

from __future__ import annotations

import pytest

from tests.checkouts import in_environment

CASES = {
    "batch norm and dropout": ["0.weight", "1.weight", "1.bias"],
    "tied": ["embed.weight"],
    "own loss": ["lin.weight", "lin.bias"],
}
BUFFERS = {
    "batch norm and dropout": ["1.running_mean", "1.running_var", "1.num_batches_tracked"],
}
SLOTS = {
    "SGD": [],
    "SGD with momentum": ["momentum_buffer"],
    "Adam": ["step", "exp_avg", "exp_avg_sq"],
    "AdamW": ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
}


@pytest.fixture(scope="module")
def found(environments) -> dict:
    return in_environment(environments / "torch-mlir/bin/python", "training_in_torch")


@pytest.mark.parametrize("optimizer", SLOTS)
@pytest.mark.parametrize("case", CASES)
def test_a_captured_step_returns_what_the_eager_step_changes(found, case, optimizer):
    differences = found[f"{case}, {optimizer}"]
    expected = {"loss", *(f"gradient of {name}" for name in CASES[case])}
    changed = [*CASES[case], *BUFFERS.get(case, [])]
    changed += [f"optimizer.{slot}.{name}" for slot in SLOTS[optimizer] for name in CASES[case]]
    assert set(differences) == expected | {f"change of {name}" for name in changed}
    assert {name: d for name, d in differences.items() if d > 1e-4} == {}
