"""aggregate_results: latency.csv and results.jsonl of every cell, held to the schema."""

import csv
import dataclasses
import json
import sys
from pathlib import Path

import pytest

from scripts import aggregate_results
from scripts.lib.config.matrix import Override
from scripts.lib.core import atomic
from scripts.lib.report import record
from scripts.lib.report.columns import COLUMNS


@pytest.fixture
def aggregate(results, monkeypatch):
    def run(endings=None) -> tuple[list[dict], list[dict]]:
        """(rows of the CSV, records of the JSONL) of a tree with these endings."""
        results.write(endings)
        atomic.write_json("matrix.json", results.matrix.to_json())
        words = ["x", "--matrix", "matrix.json", "--out-csv", "l.csv", "--out-jsonl", "r.jsonl"]
        monkeypatch.setattr(sys, "argv", words)
        aggregate_results.main()
        with Path("l.csv").open(newline="") as rows:
            lines = Path("r.jsonl").read_text().splitlines()
            return list(csv.DictReader(rows)), [json.loads(line) for line in lines]

    return run


def test_the_csv_has_the_columns_in_their_order_and_a_row_a_record(aggregate):
    rows, records = aggregate()
    assert list(rows[0]) == [one.column for one in COLUMNS]
    assert Path("l.csv").read_text().count("\n") == 1 + 6
    assert [r["model"] for r in rows] == [r["model"]["name"] for r in records]


def test_whole_numbers_print_whole_and_missing_ones_empty(aggregate, ended):
    rows, _ = aggregate(ended("error", "compile", "conv/mlir/vulkan"))
    good, failed, eager = rows[0], rows[1], rows[4]
    whole = ("batch_size", "threads", "repetitions", "vmfb_bytes", "dispatch_count")
    assert [good[k] for k in whole] == ["1", "4", "3", "1234567890", "12"]
    assert [failed[k] for k in whole] == ["1", "", "", "", ""]
    assert [eager[k] for k in whole] == ["1", "4", "3", "", ""]
    assert failed["latency_ms"] == failed["speedup_vs_eager"] == failed["cv"] == ""


@pytest.mark.parametrize("env", ["torch-mlir", "iree"])
def test_a_run_in_which_nothing_worked_still_has_its_table(aggregate, ended, env):
    rows, records = aggregate(ended("error", "env", env))
    assert len(rows) == len(records) == 6
    assert {r["status"] for r in rows[:4]} == {"error"}
    assert {r["blocked_by"] for r in rows[:4]} == {f"env {env}"}
    assert not any(r["latency_ms"] for r in rows[:4])


def test_numbers_keep_seven_digits(results):
    results.write()
    found = record.records(results.matrix)
    found[0]["latency"]["median_ms"] = 1.23456789
    assert "1.234568" in aggregate_results.to_csv(found).splitlines()[1].split(",")


def test_a_detail_with_commas_and_quotes_stays_one_cell(aggregate, ended):
    detail = 'failed to legalize "vector.broadcast"(%34), (i64)'
    rows, _ = aggregate(ended("error", "compile", "conv/mlir/vulkan", "legalization", detail))
    assert rows[1]["detail"] == detail


def test_a_record_that_breaks_the_schema_stops_the_aggregate_and_is_named(results, capsys):
    results.write()
    found = record.records(results.matrix)
    found[1]["verification"]["code"] = "FAIL"
    with pytest.raises(SystemExit) as ended:
        aggregate_results.check(found)
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("error: record conv/mlir/vulkan: verification.code: 'PASS' was expected")


def test_a_row_is_printed_for_each_test_and_a_skipped_one_says_why(results, aggregate):
    skip = {"tiny/eager/train": Override("skip.all of bench.yaml")}
    results.matrix = dataclasses.replace(results.matrix, tests=("eval", "train"), overrides=skip)
    rows, _ = aggregate()
    assert [(r["model"], r["test"], r["status"]) for r in rows[4:]] == [
        ("conv", "eval", "ok"),
        ("conv", "train", "ok"),
        ("tiny", "eval", "ok"),
        ("tiny", "train", "skipped"),
    ]
    last = rows[-1]
    assert (last["reason"], last["detail"]) == ("skip-list", "skip.all of bench.yaml")
    assert (last["blocked_by"], last["verification_code"]) == ("", "VERIFIER_SKIPPED")


@pytest.mark.parametrize("column", ["precision", "trace_s", "execute_s", "device_memory_mb", "torch_xla_version", "rewrites"])  # fmt: skip
def test_what_came_with_training_and_xla_has_a_column(column):
    assert column in [one.column for one in COLUMNS]


def test_a_broken_record_of_a_baseline_is_named_with_its_test(results, capsys):
    results.matrix = dataclasses.replace(results.matrix, tests=("eval", "train"))
    results.write()
    found = record.records(results.matrix)
    found[5]["experiment"]["precision"] = "fp8"
    with pytest.raises(SystemExit):
        aggregate_results.check(found)
    assert capsys.readouterr().err.startswith("error: record conv/eager/train: experiment.")
