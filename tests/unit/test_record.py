"""record: one record a cell, always, that says how far it came and by whose fault no further."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from scripts import aggregate_results
from scripts.lib import environments, record

SCHEMA = json.loads(aggregate_results.SCHEMA.read_text(encoding="utf-8"))
VALID = jsonschema.Draft202012Validator(SCHEMA).is_valid

# How a stage ended, a cell that it decides, and the row of that cell.
ENDINGS = [
    ("measure conv/mlir/llvm-cpu ok", "conv/mlir/llvm-cpu", "measure", None, "PASS"),
    ("export conv/mlir unsupported", "conv/mlir/vulkan", "export", "export conv/mlir", "VERIFIER_DIDNT_RUN"),
    ("compile conv/mlir/vulkan error", "conv/mlir/vulkan", "compile", "compile conv/mlir/vulkan", "VERIFIER_DIDNT_RUN"),
    ("compile conv/mlir/vulkan timeout", "conv/mlir/vulkan", "compile", "compile conv/mlir/vulkan", "VERIFIER_DIDNT_RUN"),
    ("measure conv/mlir/vulkan unavailable", "conv/mlir/vulkan", "measure", None, "VERIFIER_DIDNT_RUN"),
    ("measure conv/mlir/vulkan crashed", "conv/mlir/vulkan", "measure", None, "EXCEPTION_RAISED"),
    ("measure conv/mlir/vulkan error wrong-result", "conv/mlir/vulkan", "measure", None, "FAIL"),
    ("measure conv/mlir/vulkan error", "conv/mlir/vulkan", "measure", None, "EXCEPTION_RAISED"),
    ("measure conv/mlir/vulkan timeout", "conv/mlir/vulkan", "measure", None, "VERIFIER_DIDNT_RUN"),
    ("baseline conv/eager crashed", "conv/eager", "baseline", None, "EXCEPTION_RAISED"),
    ("baseline conv/eager oom", "conv/eager", "baseline", None, "VERIFIER_DIDNT_RUN"),
    ("baseline conv/eager error wrong-result", "conv/eager", "baseline", None, "FAIL"),
    ("reference conv error", "conv/mlir/vulkan", "reference", "reference conv", "EAGER_FAILED"),
    ("reference conv error", "conv/eager", "reference", "reference conv", "EAGER_FAILED"),
    ("env torch-mlir error", "conv/mlir/vulkan", "env", "env torch-mlir", "VERIFIER_DIDNT_RUN"),
    ("env iree error", "conv/mlir/llvm-cpu", "env", "env iree", "VERIFIER_DIDNT_RUN"),
]  # fmt: skip


def rows(found: list[dict]) -> dict[str, dict]:
    """CSV rows by cell."""
    cells = {}
    for one in found:
        row = record.row(one)
        road = (row["frontend"], row["target"]) if row["runtime"] == "iree" else (row["runtime"],)
        cells["/".join([row["model"], *road])] = row
    return cells


@pytest.mark.parametrize(("ending", "cell", "stage", "blocked_by", "code"), ENDINGS)
def test_a_row_says_which_stage_decided_and_what_it_blocked(
    results, ended, ending, cell, stage, blocked_by, code
):
    at, of, status, *reason = ending.split()
    reason = None if status == "ok" else (reason or ["why"])[0]
    results.write(ended(status, at, of, reason or "", "what" if reason else ""))
    found = record.records(results.matrix)
    assert all(map(VALID, found))
    row = rows(found)[cell]
    assert [row[k] for k in ("status", "stage", "reason")] == [status, stage, reason]
    assert [row[k] for k in ("blocked_by", "verification_code")] == [blocked_by, code]
    assert row["log"] == f"results/{at}/{of}/log.txt"
    assert row["detail"] == ("what" if reason else None)
    assert (row["latency_ms"] is None) == (row["speedup_vs_eager"] is None) == (status != "ok")


def test_every_cell_has_a_record_in_the_order_of_the_matrix_whatever_failed(results, ended):
    results.write(ended("crashed", "reference", "conv"))
    found = record.records(results.matrix)
    mlir = [f"{m}/mlir/{t}" for m in ("conv", "tiny") for t in ("llvm-cpu", "vulkan")]
    assert list(rows(found)) == [*mlir, "conv/eager", "tiny/eager"]
    assert [r["outcome"]["status"] for r in found] == ["crashed"] * 2 + ["ok"] * 2 + ["crashed", "ok"]  # fmt: skip


def test_a_verified_row_holds_its_numbers_with_their_units(results):
    results.write()
    row = rows(record.records(results.matrix))["tiny/mlir/llvm-cpu"]
    assert (row["suite"], row["dtype"], row["batch_size"]) == ("user", "f16", 4)
    assert [row[f"{k}_ms"] for k in ("latency", "mean", "min", "load", "first_call")] == [5, 5, 4, 3, 30]  # fmt: skip
    assert (row["repetitions"], row["stdev_ms"], row["cv"]) == (3, 1.0, pytest.approx(0.2))
    assert (row["trust"], row["trust_reason"]) == ("low", "3 repetitions; cv 20.0%")
    assert (row["vmfb_bytes"], row["compile_s"], row["export_s"]) == (1234567890, 2.0, 0.5)
    assert (row["compile_rss_mb"], row["run_rss_mb"]) == (300.5, 200.0)
    assert [row[f"{k}_version"] for k in ("torch", "frontend", "iree")] == ["2.0", "1", "3.0"]


def test_memory_of_a_run_is_the_timed_process_and_that_of_its_stage_stands_beside_it(
    results, ended
):
    results.write(ended("timeout", "measure", "conv/mlir/vulkan"))
    of_cell = {r["model"]["name"]: r["run"] for r in record.records(results.matrix) if r["experiment"].get("target") == "vulkan"}  # fmt: skip
    assert [of_cell["tiny"][k] for k in ("max_rss_mb", "stage_rss_mb")] == [200.0, 100.0]
    assert [of_cell["conv"][k] for k in ("max_rss_mb", "stage_rss_mb")] == [None, 100.0]


def test_versions_of_a_row_that_never_ran_are_the_pins(results, ended):
    results.write(ended("error", "env", "torch-mlir"))
    row = rows(record.records(results.matrix))["conv/mlir/vulkan"]
    pins = environments.pins("torch-mlir")
    assert (row["torch_version"], row["frontend_version"]) == (pins["torch"], pins["torch-mlir"])
    assert row["iree_version"] == environments.pins("iree")["iree-base-compiler"]


@pytest.mark.parametrize("change", [{"threads": 2}, {"device_name": "Another CPU"}])
def test_speedup_is_against_eager_of_the_same_model_device_and_threads(results, change):
    results.write()
    results.measure(Path("results/measure/tiny/mlir/llvm-cpu/measurement.json"), **change)
    speedup = {cell: row["speedup_vs_eager"] for cell, row in rows(record.records(results.matrix)).items()}  # fmt: skip
    assert speedup == {
        "conv/mlir/llvm-cpu": 2.0,
        "conv/mlir/vulkan": None,  # another device
        "tiny/mlir/llvm-cpu": None,  # other threads, or another CPU
        "tiny/mlir/vulkan": None,
        "conv/eager": 1.0,
        "tiny/eager": 1.0,
    }


def test_without_an_eager_latency_there_is_no_speedup(results, ended):
    results.write(ended("oom", "baseline", "conv/eager"))
    found = rows(record.records(results.matrix))
    assert found["conv/mlir/llvm-cpu"]["speedup_vs_eager"] is None
    assert found["tiny/mlir/llvm-cpu"]["speedup_vs_eager"] == 2.0


def test_records_can_be_made_from_another_folder(results, ended, tmp_path, monkeypatch):
    results.write(ended("error", "env", "iree"))
    here = record.records(results.matrix)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert record.records(results.matrix, tmp_path) == here


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("verification", {"code": "FAIL"}),
        ("verification", {"code": "FINE"}),
        ("outcome", {"status": "error", "reason": "r", "detail": "d"}),
        ("outcome", {"stage": "cooking"}),
        ("latency", {"median_ms": 0.0}),
        ("latency", {"values_ms": []}),
        ("latency", None),
    ],
)
def test_the_schema_refuses_a_record_that_claims_too_much(results, section, change):
    results.write()
    good = record.records(results.matrix)[0]
    assert VALID(good)
    bad = copy.deepcopy(good)
    bad[section] = None if change is None else bad[section] | change
    assert not VALID(bad)


@pytest.mark.parametrize("key", ["reason", "detail", "log"])
def test_the_schema_asks_of_a_failure_why_and_where_to_read_on(results, ended, key):
    results.write(ended("error", "compile", "conv/mlir/vulkan"))
    bad = record.records(results.matrix)[1]
    assert VALID(bad)
    bad["outcome"][key] = ""
    assert not VALID(bad)
