"""summary: the table at the end of a run: rows by status and by the deciding stage."""

import json
import re
import time
from pathlib import Path

import pytest

from scripts.results import columns, record, row_set, screen
from scripts.results.columns import COLUMNS, FIELDS
from scripts.run import outputs
from scripts.supervise import journal


def test_the_table_counts_rows_by_status_and_deciding_stage(results, ended):
    endings = {
        **ended("unsupported", "export", "conv/mlir"),
        **ended("error", "compile", "tiny/mlir/vulkan"),
        **ended("error", "baseline", "tiny/eager/eval", "wrong-result"),
    }
    results.write(endings)
    rows = [columns.as_row(one, FIELDS) for one in record.records(results.matrix)]
    title, _, table = screen.counted(rows).renderables
    assert title.plain == "6 rows, 2 with a verified latency"
    head = [column.header for column in table.columns]
    lines = list(zip(*(column.cells for column in table.columns), strict=True))
    assert head == ["status", "export", "compile", "verify", "baseline", "all"]
    assert lines == [
        ("ok", "", "", "1", "1", "2"),
        ("unsupported", "2", "", "", "", "2"),
        ("error", "", "1", "", "1", "2"),
    ]


@pytest.mark.parametrize("written", [True, False])
def test_the_results_are_shown_by_the_run_that_wrote_them_with_their_stale_rows(
    results, monkeypatch, capsys, written
):
    results.write()
    rows = [columns.as_row(one, FIELDS) for one in record.records(results.matrix)]
    before = outputs.versions()
    Path("results").mkdir(exist_ok=True)
    found = record.records(results.matrix)
    outputs.CSV.write_text("".join(row_set.to_csv(found, COLUMNS)))
    outputs.JSONL.write_text("".join(json.dumps(one) + "\n" for one in found))
    if not written:
        before = outputs.versions()
    journal.begin(Path("journal.jsonl"))
    screen.show(Path("journal.jsonl"), time.time(), before)
    said = " ".join(capsys.readouterr().err.split())
    assert ("latency.csv" in said) == ("6 rows" in said) == written
    stale = f"{len(rows)} rows were measured by older code; --config retry=stale"
    assert (stale in said) == written
    assert ("Latency in ms per call" in said) == written
    assert "s in all" not in said  # no stage ran


def test_a_journal_without_a_run_shows_nothing(tmp_path, capsys):
    (tmp_path / "journal.jsonl").write_text("")
    screen.show(tmp_path / "journal.jsonl", time.time(), {})
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("stages", [[], ["compile"]])
def test_seconds_are_accounted_for_where_a_stage_ran(stages, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "journal.jsonl"
    journal.begin(path)
    for stage in stages:
        journal.append(path, {"stage": stage, "start": 0, "child_seconds": 9, "startup_s": 4})
    screen.show(path, time.time(), {})
    said = capsys.readouterr().err
    assert ("s in all" in said) == bool(re.search(r"compile.*1.*4.*5", said)) == bool(stages)


def test_failures_are_pointed_at_where_there_are_some(results, ended):
    results.write(ended("error", "compile", "tiny/mlir/vulkan"))
    rows = [columns.as_row(one, FIELDS) for one in record.records(results.matrix)]
    named = [{key: str(value) for key, value in row.items()} for row in rows]
    failures = "failures: vmfbench failed"
    assert failures in list(screen.pointers(named))
    good = [row for row in named if row["status"] == "ok"]
    assert failures not in list(screen.pointers(good))
