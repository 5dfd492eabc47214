"""For each model of the default run, no material wrong output passes and every correct one does."""

from __future__ import annotations

import pytest

from benchmarks import wrong_candidates
from tests.checkouts import params

MODELS = {model.name: model for model in wrong_candidates.models()}
OF_RELEASE = MODELS.keys() - {"bert", "conv", "gcn", "gpt2-decode", "llama-qlora"}
NAMES = params(MODELS, OF_RELEASE)
ALWAYS = (
    "zeros",
    "mean",
    "negated",
    "shuffled",
    "5 % noise",
    "× 1.05",
    "largest × 10",
    "1 % zeroed",
    "smallest row zeroed",
    "smallest row negated",
)


@pytest.fixture(scope="module")
def found(environments, selected):
    cases = [
        wrong_candidates.case(MODELS[name], smallest=True, parameters=3)
        for name in selected(MODELS, OF_RELEASE)
    ]
    return {one["model"]: one for one in wrong_candidates.judged(cases)}


@pytest.mark.parametrize("name", NAMES)
def test_no_material_wrong_candidate_passes(found, name):
    assert wrong_candidates.wrongly_passed(found[name]) == []
    material = {row["name"] for row in found[name]["wrong"] if row["material"]}
    assert material.issuperset(ALWAYS)
    # Correct programs of models that round while they run differ by more than this.
    assert "noise" in MODELS[name].tolerance or "one element + 0.01 RMS" in material
    assert material.issuperset(
        {"outputs of another seed", "outputs of another input", "outputs of other weights"}
    )
    assert any(row.endswith(" zeroed") and "." in row for row in material), "no weight matters"


@pytest.mark.parametrize("name", NAMES)
def test_right_programs_pass(found, name):
    assert len(found[name]["correct"]) > 8
    assert wrong_candidates.wrongly_failed(found[name]) == []


@pytest.mark.parametrize("name", NAMES)
def test_outputs_rounded_to_fewer_bits_fail(found, name):
    rounded = [row for row in found[name]["wrong"] if row["name"].startswith("rounded to")]
    assert len(rounded) >= 2
    assert [row["name"] for row in rounded if row["passed"]] == []
