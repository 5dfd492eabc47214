"""scripts.measure.verify.torch_same gives the verdicts of torch's own `same`, except where it is intentionally stricter."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.checkouts import ROOT, environment

COUNT = 15000
FLOATS = ("float64", "float32", "float16", "bfloat16")
RULES = [
    *("dtype: FAIL", "bool allclose: PASS", "bool allclose: FAIL"),
    *("integer allclose: PASS", "integer allclose: FAIL"),
    *("float allclose: PASS", "float allclose: FAIL"),
    *("cosine: PASS", "cosine: FAIL"),
    "only golden is nan: PASS",
    *("rmse, golden is nan: PASS", "rmse, golden is nan: FAIL"),
    *("rmse, actual is not finite: PASS", "rmse, actual is not finite: FAIL"),
    *("rmse, golden is exact: PASS", "rmse, golden is exact: FAIL"),
    # Beyond m and passed: the multiplier was a larger one. Beyond m and failed: it was m, or less.
    "rmse, multiplier beyond 0: PASS",
    *("rmse, multiplier beyond 2: PASS", "rmse, multiplier beyond 2: FAIL"),
    *("rmse, multiplier beyond 3: PASS", "rmse, multiplier beyond 3: FAIL"),
    *("rmse, multiplier beyond 8: PASS", "rmse, multiplier beyond 8: FAIL"),
    "rmse, multiplier beyond 10: FAIL",
]


@pytest.fixture(scope="module")
def tally(environments, tmp_path_factory) -> dict:
    """What torch and compare said of the same random outputs."""
    out = tmp_path_factory.mktemp("same") / "tally.json"
    python = environments / "torch-mlir/bin/python"
    script = "tests/pipeline/compare_with_torch.py"
    done = subprocess.run(
        [python, script, f"--count={COUNT}", f"--out={out}"],
        cwd=ROOT,
        env=environment() | {"PYTHONPATH": os.fspath(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(out.read_text(encoding="utf-8"))


def test_every_verdict_is_torchs(tally):
    assert tally["judged"] == COUNT
    assert not tally["mismatches"], (
        f"{tally['mismatches']} differ; show one by tests/pipeline/compare_with_torch.py --case N:\n"
        + json.dumps(tally["first_mismatches"], indent=2)
    )


def test_every_value_is_close_as_to_torch(tally):
    assert len(tally["closes"]) > 50
    assert [found for found in tally["closes"] if found["differ"]] == []
    # With tolerances of 0 or 1 next to nothing, or all, is close.
    rates = [found["close"] / found["of"] for found in tally["closes"] if 1e-3 <= found["tol"] < 0.5]  # fmt: skip
    assert all(0.05 < rate < 0.98 for rate in rates), rates


def test_both_verdicts_are_common(tally):
    assert min(tally["verdicts"].values()) > 0.25 * COUNT, tally["verdicts"]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_of_torchs_decides_some(tally, rule):
    assert tally["rules"].get(rule, 0) >= 10, json.dumps(tally["rules"], indent=2, sort_keys=True)


@pytest.mark.parametrize("kind", ["near_allclose", "near_rmse", "nan_in_golden", "angle"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_border_of_every_rule_is_met_from_both_sides_in_every_type(tally, kind, dtype):
    for verdict in ("PASS", "FAIL"):
        assert tally["kinds"].get(f"{kind}, {dtype}: {verdict}", 0) >= 10
