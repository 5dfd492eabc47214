"""merge_results: the rows of several folders as one set, and cells with different rows."""

from __future__ import annotations

import copy
import csv
import json
import sys
from pathlib import Path

import pytest

from scripts.core import atomic
from scripts.stages import aggregate_results
from scripts.tools.report import merge as merge_results

CONV, TINY = "conv", "tiny"


@pytest.fixture
def whole(results, monkeypatch) -> list[dict]:
    """The records of an aggregate."""
    results.write()
    atomic.write_json("matrix.json", results.matrix.to_json())
    monkeypatch.setattr(sys, "argv", ["x", "--matrix", "matrix.json", "--out", "all"])
    aggregate_results.main()
    return [json.loads(line) for line in Path("all/results.jsonl").read_text().splitlines()]


@pytest.fixture
def merge(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["x", *words])
        merge_results.main()
        return capsys.readouterr().out

    return call


def write(name: str, found: list[dict]) -> str:
    path = Path(name, "results.jsonl")
    path.parent.mkdir()
    path.write_text("".join(json.dumps(one) + "\n" for one in found))
    return str(path)


def of(found: list[dict], model: str) -> list[dict]:
    return [copy.deepcopy(one) for one in found if one["model"]["name"] == model]


def test_batches_make_the_rows_of_the_whole(whole, merge):
    said = merge(write("a", of(whole, CONV)), write("b", of(whole, TINY)), "-o", "merged")
    assert "merged: 6 rows of 2 files" in said
    merged = [json.loads(line) for line in Path("merged/results.jsonl").read_text().splitlines()]
    by_cell = {merge_results.cell_of(one): one for one in whole}
    assert {merge_results.cell_of(one): one for one in merged} == by_cell
    with Path("merged/latency.csv").open(newline="") as one, Path("all/latency.csv").open(newline="") as other:  # fmt: skip
        rows, expected = (sorted(csv.reader(file)) for file in (one, other))
    assert rows == expected
    assert "6 of 6 rows measured" in Path("merged/latency.md").read_text()


def test_speed_ups_are_over_baselines_of_other_files(whole, merge):
    baselines = [one for one in whole if one["experiment"]["runtime"] == "eager"]
    others = [copy.deepcopy(one) for one in whole if one["experiment"]["runtime"] == "iree"]
    for one in others:
        one["latency"] |= {"speedup_vs_eager": None, "verdict": None}
    merge(write("a", others), write("b", baselines), "-o", "merged")
    with Path("merged/latency.csv").open(newline="") as file:
        rows = {row["target"]: row for row in csv.DictReader(file) if row["model"] == CONV}
    assert float(rows["llvm-cpu"]["speedup_vs_eager"]) == pytest.approx(2.0)
    assert rows["llvm-cpu"]["verdict"] == "faster"


def test_different_rows_of_a_cell_are_named_and_nothing_is_written(whole, merge, capsys):
    changed = of(whole, CONV)
    changed[0]["latency"] |= {"values_ms": [7.0, 8.0, 9.0, 8.0, 8.0], "ms": 8.0}
    files = write("a", whole), write("b", changed)
    with pytest.raises(SystemExit):
        merge(*files, "-o", "merged")
    said = capsys.readouterr()
    assert "conv/mlir/llvm-cpu: a/results.jsonl: 5 ms with" in said.out
    assert "b/results.jsonl: 8 ms with" in said.out
    assert "1 cells have different rows" in said.err
    assert not Path("merged").exists()
    for prefer, expected in (("first", "5"), ("last", "8")):
        merge(*files, "-o", "merged", "--prefer", prefer)
        row = next(csv.DictReader(Path("merged/latency.csv").read_text().splitlines()))
        assert row["latency_ms"] == expected


def test_what_depends_on_other_rows_is_no_conflict(whole, merge):
    again = copy.deepcopy(whole)
    for one in again:
        one["latency"] |= {"speedup_vs_eager": 9.0, "verdict": "same"}
        one["outcome"]["stale"] = True
    assert "6 rows of 2 files" in merge(write("a", whole), write("b", again), "-o", "merged")


def test_the_newest_row_can_be_taken(whole):
    old, new = of(whole, CONV)[0], of(whole, CONV)[0]
    for one, started in ((old, 10.0), (new, 20.0)):
        one["latency"] |= {"started": started, "ms": started}
    for files in ({Path("a"): [old], Path("b"): [new]}, {Path("a"): [new], Path("b"): [old]}):
        [found] = merge_results.merge(copy.deepcopy(files), merge_results.NEWEST)[0]
        assert found["latency"]["ms"] == 20.0


def test_files_of_another_form_are_named(merge, capsys):
    Path("one").mkdir()
    Path("one/results.jsonl").write_text("{}\n")
    with pytest.raises(SystemExit):
        merge("one/results.jsonl", "-o", "merged")
    assert "one/results.jsonl:1: Object missing required field `model`" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        merge("one/results.jsonl", "-o", "one")
    assert "is one of the files to merge" in capsys.readouterr().err
