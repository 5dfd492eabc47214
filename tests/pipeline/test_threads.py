"""measure.threads as a list: each number is measured, everything else is made once, and the report compares them."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.checkouts import EAGER, ON_CPU, QUICK, Checkout, keep_models
from tests.report_records import unpacked

CELLS = {
    name: number
    for number in (1, 2)
    for name in (
        f"verify/conv/torchmlir-torch/llvm-cpu+{number}-threads",
        f"time/conv/cpu+{number}-threads/eval",
        f"baseline/conv/eager+{number}-threads/eval",
        f"machine_limits/cpu+{number}-threads",
    )
}
"""What is measured, with its number of threads."""
LIMITS = {
    stage: {"timeout_s": 60}  # the limits of a machine without bfloat16 may take minutes
    for stage in ("env", "reference", "export", "compile", "verify", "baseline", "time")
}


def run(checkout: Checkout, numbers: list[int], *files: str) -> None:
    checkout.configure(measure={**QUICK, "threads": numbers})
    checkout.snakemake("--cores", "2", "results/latency.csv", *files)


def ended(checkout: Checkout) -> dict[str, int]:
    """When each stage of each cell ended: the time of its status."""
    results = checkout.path / "results"
    found = sorted(results.glob("*/**/status.json"))
    return {str(one.parent.relative_to(results)): one.stat().st_mtime_ns for one in found}


@pytest.fixture(scope="module")
def runs(make_checkout) -> tuple[Checkout, dict[str, int], dict[str, int]]:
    """A run with two threads, then one with one and two: the folder, and what each of them left."""
    frontends = {"torchmlir-torch": {"exporter": "torch_mlir", "env": "torch-mlir", "options": {"dialect": "torch", "rewrites": "all"}}}  # fmt: skip
    made = make_checkout(
        "threads",
        models={"conv": {}},
        targets=ON_CPU,
        baselines=EAGER,
        frontends=frontends,
        limits=LIMITS,
    )
    keep_models(made, "conv")
    run(made, [2])
    first = ended(made)
    run(made, [1, 2], "results/report.html", "plots")
    return made, first, ended(made)


def test_a_further_number_measures_its_cells_and_runs_nothing_else_again(runs):
    _, first, second = runs
    assert {name for name in second if name not in first} == {
        name for name, number in CELLS.items() if number == 1
    }
    assert {name for name in first if first[name] != second[name]} == set()
    assert [name for name in second if name.startswith("compile/")] == [
        "compile/conv/torchmlir-torch/llvm-cpu"
    ]


def test_each_measurement_runs_on_its_threads(runs):
    checkout, _, _ = runs
    for name, number in CELLS.items():
        found = json.loads((checkout.path / "results" / name / "status.json").read_text())
        words = shlex.split(found["command"])
        if not name.startswith("time/"):  # its members have the number
            assert words[words.index("--threads") + 1] == str(number)
    for row in checkout.rows():
        assert row["status"] == "ok", row["detail"]
        name = row["target"] or row["runtime"]
        assert name.endswith(f"+{row['threads']}-threads")


def test_a_row_is_compared_with_the_baseline_of_its_number(runs):
    checkout, _, _ = runs
    rows = {(row["runtime"], row["threads"]): row for row in checkout.rows()}
    for number in ("1", "2"):
        iree, eager = (rows[name, number] for name in ("iree", "eager"))
        assert float(iree["speedup_vs_eager"]) > 0
        assert float(eager["speedup_vs_eager"]) == 1


def test_the_report_has_the_efficiencies(runs):
    checkout, _, _ = runs
    text = (checkout.path / "results/report.html").read_text(encoding="utf-8")
    [data] = re.findall(r'id="data-view-threads">([^<]*)<', text)
    lines = {one["path"]: one["points"] for one in unpacked(data)["lines"]}
    assert set(lines) == {"torchmlir-torch on llvm-cpu", "eager"}
    for points in lines.values():
        assert [one["threads"] for one in points] == [1, 2]
        assert points[0]["efficiency"] == 1
        assert points[1]["efficiency"] > 0
    assert "torchmlir-torch" in (checkout.path / "results/plots/threads.svg").read_text()
