"""results/history/ and `vmfbench history`: what is kept, series, findings, queries, and damaged entries."""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
import sys
from pathlib import Path

import pytest

from scripts.core import atomic
from scripts.results import at_hand
from scripts.results.results_file import cell_of
from scripts.stages import aggregate_results
from scripts.tools.compare import history, page_views, store
from scripts.tools.report.web.page_source import Source
from tests import histories
from tests.histories import CELL
from tests.unit.conftest import STARTED

FOLDER = Path("results/history")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "commit", lambda folder: "c0ffee")
    monkeypatch.setattr(at_hand, "commit", lambda results: "c0ffee")


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["x", *words])
        history.main()
        return capsys.readouterr().out

    return call


@pytest.fixture
def series(run):
    """Returns the series that the command prints as JSON."""

    def call(cell=CELL, *words: str) -> list[dict]:
        return json.loads(run("--cell", cell, *words, "--json"))["series"]

    return call


@pytest.fixture
def aggregate(results, monkeypatch):
    def call(endings=None) -> None:
        results.write(endings)
        atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
        monkeypatch.setattr(sys, "argv", ["x"])
        aggregate_results.main()

    return call


def listed() -> list[str]:
    return sorted(path.name for path in FOLDER.iterdir())


def test_an_aggregate_is_kept_once_with_the_commits_at_which_it_was_the_same(
    aggregate, ended, run, monkeypatch
):
    aggregate()
    first = listed()
    written = [path.stat().st_mtime_ns for path in FOLDER.iterdir()]
    assert [name.partition(".")[2] for name in first] == ["json", "jsonl.zst"]
    aggregate()
    assert listed() == first
    assert [path.stat().st_mtime_ns for path in FOLDER.iterdir()] == written
    monkeypatch.setattr(at_hand, "commit", lambda results: "beef")
    run("--keep")
    run("--keep")
    (kept,), wrong = store.read(FOLDER)
    assert (kept.entry.commits, wrong) == (["c0ffee", "beef"], [])
    aggregate(ended("error", "compile", "conv/mlir/vulkan"))
    assert len(listed()) == 4
    assert set(first) < set(listed())


def test_an_entry_has_the_records_and_says_when_where_and_with_what(aggregate):
    aggregate()
    [kept], _ = store.read(FOLDER)
    lines = Path("results/results.jsonl").read_text().splitlines()
    assert list(kept.records()) == [json.loads(line) for line in lines]
    entry = kept.entry
    assert (entry.kind, entry.commit, entry.statuses) == ("latency", "c0ffee", {"ok": 6})
    assert entry.toolchains["pinned"]["IREE"] == ["3.0"]
    assert entry.machine.cores >= 1
    assert entry.machine.name
    assert entry.at == STARTED


def test_an_error_of_the_history_is_no_failure_of_the_run(aggregate, capsys):
    Path("results").mkdir()
    FOLDER.write_text("a file where the folder should be")
    aggregate()
    assert "was not added to the history" in capsys.readouterr().err
    assert Path("results/latency.csv").is_file()


def test_a_change_is_printed_with_its_run_and_what_differs(run):
    histories.with_a_change(Path("results"))
    entries = [one.entry for one in store.read(FOLDER)[0]]
    for shown in (run("--cell", "bert/*/llvm-cpu"), overview := run()):
        [change] = [line for line in shown.splitlines() if "  change  " in line]
        assert change.startswith(CELL)
        assert f"({entries[4].short})" in change
        assert change.endswith("IREE 3.12.0 → 3.13.0")
    assert all(one.short in overview for one in entries)
    assert "No change was found in 1 series." in run("--cell", "resnet/torchmlir-torch/llvm-cpu")


def test_series_and_findings_as_json(run):
    histories.with_a_change(Path("results"))
    found = json.loads(run("--cell", CELL, "--json"))
    [one] = found["series"]
    assert len(one["points"]) == 8
    [change] = one["changes"]
    assert change["index"] == 4
    assert change["ratio"][0] == pytest.approx(1 / 1.5, rel=0.01)
    assert (one["anchor"], one["follows"]) == ("eager/eval, PyTorch 2.15.0", "")
    first, *_, last = one["points"]
    assert last["ms"] / first["ms"] == pytest.approx(1.5 * 1.2, rel=0.01)
    low, high = last["interval"]
    assert low < last["value"] < high
    assert "IREE 3.12.0 → 3.13.0" in change["differs"]
    assert one["drift"] is None
    assert found["outcomes"] == []


def test_a_measurement_is_one_point_however_many_aggregates_have_it(series):
    found = histories.with_a_change(Path("results"), runs=5)
    first = next(one for one in found if one["outcome"]["status"] == "ok")
    first["outcome"]["stale"] = True  # another content with the same measurements
    histories.keep(Path("results"), found)
    assert len(listed()) == 12
    assert [len(one["points"]) for one in series()] == [5]


def compiled(seconds: float, age_s: float = -1.0, **passes: float) -> None:
    """Write what `snakemake compile_time` measured of CELL, that long before the program of the row was compiled."""
    model, frontend, target = CELL.split("/")
    status = Path(f"results/compile/{CELL}/status.json")
    times = Path(f"results/compile_time/{model}/iree/{frontend}/{target}/compile.json")
    parts = [{"name": name, "s": s} for name, s in passes.items()]
    atomic.write_json(status, {})
    atomic.write_json(times, {"program": {"status": "ok"}, "total_s": seconds, "passes": parts})
    at = status.stat().st_mtime - age_s
    os.utime(times, (at, at))


@pytest.fixture
def compilations():
    """Three runs, the last of another IREE, whose LLVM takes longer; of the second one nothing was measured since it was compiled."""
    Path("results").mkdir()
    compiled(10.0, CSE=2.0, LLVM=6.0, Tiny=0.1)
    histories.keep(Path("results"), histories.records(0))
    compiled(99.0, age_s=5.0, CSE=99.0)
    histories.keep(Path("results"), histories.records(1))
    compiled(21.0, CSE=2.5, LLVM=16.0, Tiny=0.1)
    histories.keep(Path("results"), histories.records(2, iree="3.13.0"))


def test_the_compile_time_of_each_version_is_shown_by_pass(run, compilations):
    shown = run("--cell", CELL, "--value", "compile_cpu_s")
    table = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.strip()}
    assert table["LLVM"] == ["6.00", "16.00"]
    assert table["CSE"] == ["2.00", "2.50"]
    assert table["all"] == ["passes", "10.00", "21.00"]
    assert table["(others)"] == ["2.00", "2.50"]
    assert "Tiny" not in shown
    assert "99.00" not in shown
    assert "IREE 3.12.0" in shown
    assert "IREE 3.13.0" in shown
    assert "LLVM" not in run("--cell", CELL)
    first, last = json.loads(run("--cell", CELL, "--value", "compile_s", "--json"))["passes"]
    assert (first["iree"], first["seconds"]["Tiny"]) == ("3.12.0", 0.1)
    assert (last["iree"], last["seconds"]["LLVM"]) == ("3.13.0", 16.0)


def test_times_of_passes_that_came_later_are_added_to_their_run(run):
    histories.keep(Path("results"), histories.records(0))
    compiled(10.0, CSE=2.0)
    run("--keep")
    assert "CSE" in run("--cell", CELL, "--value", "compile_s")
    [file] = FOLDER.glob("*.passes.zst")
    file.write_bytes(b"damaged")
    with pytest.raises(SystemExit):
        run("--cell", CELL, "--value", "compile_s")


@pytest.mark.parametrize(
    ("section", "values"),
    [("run", {"device_name": "another CPU"}), ("experiment", {"optimizer": {"name": "AdamW"}})],
)
def test_series_of_other_devices_and_optimizers_are_apart(series, section, values):
    found = histories.with_a_change(Path("results"), runs=2)
    for one in found:
        one[section] |= values
        if one["latency"]:
            one["latency"]["started"] += 1
    histories.keep(Path("results"), found)
    assert [len(one["points"]) for one in series()] == [2, 1]


def test_a_series_starts_anew_where_the_anchor_is_another_one(run, series):
    found = histories.with_a_change(Path("results"), runs=4, at=9)
    other = {"anchor": "eager/eval, PyTorch 2.16.0", "started": histories.FIRST + 9e6}
    for one in found:
        if one["latency"] and one["latency"]["anchor"]:
            one["latency"] |= other
    histories.keep(Path("results"), found)
    points = [(len(one["points"]), one["follows"]) for one in series()]
    assert points == [(4, ""), (1, "eager/eval, PyTorch 2.15.0")]
    shown = run("--cell", CELL)
    assert "times as fast as eager/eval, PyTorch 2.16.0\n" in shown
    assert "Starts anew with another anchor, after eager/eval, PyTorch 2.15.0" in shown


@pytest.mark.parametrize("name", ["bert/eager/eval", "conv/torchmlir-stablehlo/vulkan"])
def test_a_row_without_anchor_and_the_anchor_itself_have_milliseconds(series, name):
    found = histories.with_a_change(Path("results"), runs=2)
    [one] = series(name)
    [ms] = [row["latency"]["ms"] for row in found if str(cell_of(row)) == name]
    assert (one["anchor"], one["unit"], one["points"][-1]["value"]) == ("", "ms", ms)
    low, high = one["points"][-1]["interval"]
    assert low < ms < high


@pytest.mark.parametrize("cpu", [None, "another CPU"])
def test_how_a_cell_ends_is_followed_on_machines_of_one_cpu(
    aggregate, ended, run, monkeypatch, cpu
):
    aggregate()
    if cpu:
        monkeypatch.setattr(store.machine, "cpu_name", lambda: cpu)
    aggregate(ended("error", "compile", "conv/mlir/vulkan", "legalization"))
    shown = run("--cell", "conv/*")
    ends = [line.split()[0] for line in shown.splitlines() if "ok → compile: legalization" in line]
    assert ends == ([] if cpu else ["conv/mlir/vulkan"])


def test_a_size_changes_where_it_differs(series):
    histories.with_a_change(Path("results"), runs=3)
    found = histories.records(3)
    found[0]["compile"]["vmfb_bytes"] += 1
    histories.keep(Path("results"), found)
    changes = [(one["cell"], one["changes"]) for one in series("*", "--value", "vmfb_bytes")]
    [(name, [change])] = [(name, of_cell) for name, of_cell in changes if of_cell]
    assert (name, change["index"]) == (CELL, 3)


def test_a_query_is_answered_by_duckdb(run):
    histories.with_a_change(Path("results"))
    sql = f"select versions, count(*) n, round(max(latency_ms) / min(latency_ms), 1) as spread from rows join runs using (run) where cell = '{CELL}' group by 1 order by 1"  # fmt: skip
    answer = list(csv.DictReader(run("--sql", sql).splitlines()))
    assert [(one["n"], one["spread"]) for one in answer] == [("4", "1.4")] * 2
    assert "IREE 3.13.0" in answer[1]["versions"]


def test_the_query_of_the_page_is_answered_without_this_project():
    import duckdb

    page = (Path(__file__).parents[2] / "docs/history.md").read_text()
    query = re.search(r"```sql\n(.*?)```", page, re.DOTALL)[1]
    histories.with_a_change(Path("results"), runs=3)
    found = duckdb.sql(query).fetchall()
    assert len(found) == 9  # bert by three lowering paths
    assert [iree for _, _, iree, _ in found] == ["3.12.0"] * 9
    at = found[0][0].replace(tzinfo=datetime.UTC).timestamp()
    assert at == pytest.approx(histories.FIRST)
    assert all(ms > 0 for *_, ms in found)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--sql", "select nothing from nowhere"), "nowhere"),
        (("--value", "doubt"), "'doubt' is not a column of numbers; there are batch_size"),
        (("--cell", "nothing/*"), "no cell in 2 runs matches --cell nothing/*"),
        (("--results", "none"), "no run is kept; `vmfbench run`"),
    ],
)
def test_mistakes_are_named(run, capsys, words, problem):
    histories.with_a_change(Path("results"), runs=2)
    with pytest.raises(SystemExit):
        run(*words)
    assert problem in capsys.readouterr().err


def test_an_unknown_status_is_named_with_its_file_and_line(run, capsys):
    records = histories.records(0)
    records[1]["outcome"]["status"] = "melted"
    histories.keep(Path("results"), records)
    with pytest.raises(SystemExit):
        run()
    assert re.search(r"\.jsonl\.zst:2: .*`\$\.outcome\.status`; expected a record of this project", capsys.readouterr().err)  # fmt: skip


def test_damaged_entries_are_named(run, capsys):
    histories.with_a_change(Path("results"), runs=2)
    (FOLDER / "0.json").write_text("{")
    compressed, other = sorted(FOLDER.glob("*.zst"))
    compressed.write_bytes(other.read_bytes())
    with pytest.raises(SystemExit):
        run()
    problems = capsys.readouterr().err
    assert "history/0.json: not an entry of a history" in problems
    assert f"{compressed}: its content is not the one that was kept" in problems


def test_histories_of_two_folders_are_merged_by_copying(series):
    histories.with_a_change(Path("results"), runs=6)
    histories.with_a_change(Path("other/results"), runs=8)
    for path in Path("other/results/history").iterdir():
        path.rename(FOLDER / path.name)
    assert [len(one["points"]) for one in series()] == [8]


def test_the_view_of_the_page_has_the_cells_of_the_page(run):
    found = histories.with_a_change(Path("results"))
    sections = {section.title: section for section in page_views.history(Source(Path("results"), found[:2]))}  # fmt: skip
    [changed] = sections["Changes of the latency"].rows
    assert changed[1] == "change"
    assert sections["Changes of the latency"].places[0] in (0, 1)
    charts = sections["Series of the latency"].charts
    assert {chart.lines[0].place for chart in charts} <= {0, 1}
    assert charts[0].marks == [(3.5, "")]
    assert len(sections["Runs"].rows) == 8
    assert page_views.history(Source(Path("elsewhere"), found)) is None
