"""aggregate_results: latency.csv and results.jsonl have every cell and conform to the schema."""

import dataclasses
import errno
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.config.entries import Baseline
from scripts.config.stages import STAGES
from scripts.core import atomic
from scripts.results import latency_page, record, results_file, row_set
from scripts.results.columns import COLUMNS
from scripts.run import fingerprint
from scripts.run import outputs as run_outputs
from scripts.stages import aggregate_results
from scripts.supervise import outcome
from scripts.supervise.outcome import Usage


@pytest.fixture
def aggregate(results, monkeypatch):
    def run(endings=None, then=lambda: None) -> tuple[list[dict], list[dict]]:
        """(rows of the CSV, records of the JSONL) of a tree with these endings, changed by `then`."""
        results.write(endings)
        then()
        atomic.write_json("matrix.json", results.matrix.to_json())
        monkeypatch.setattr(sys, "argv", ["x", "--matrix", "matrix.json", "--out", "."])
        aggregate_results.main()
        lines = Path("results.jsonl").read_text().splitlines()
        return list(run_outputs.rows(Path("latency.csv"))), [json.loads(line) for line in lines]

    return run


def test_the_rows_on_the_cpu_are_those_of_the_whole_table(results, aggregate, monkeypatch):
    rows, _ = aggregate()
    monkeypatch.setattr(sys, "argv", ["x", "--matrix", "matrix.json", "--out", "results/cpu"])
    aggregate_results.main()
    on_cpu = list(run_outputs.rows(run_outputs.CPU_FILES[0]))
    assert on_cpu == [row for row in rows if row["device"] == "cpu"]
    assert 0 < len(on_cpu) < len(rows)
    assert not Path("results/history").exists()


def test_a_run_with_another_baseline_has_columns_of_the_speedups_over_it(results, aggregate):
    openvino = Baseline("openvino", "openvino", "cpu", "openvino")
    baselines = {**results.matrix.baselines, "openvino": openvino}
    results.matrix = dataclasses.replace(results.matrix, baselines=baselines)
    rows, records = aggregate()
    further = {"speedup_vs_openvino", "speedup_vs_openvino_low", "speedup_vs_openvino_high"}
    assert rows[0].keys() - {one.column for one in COLUMNS} == further
    for row, one in zip(rows, records, strict=True):
        for name in further:
            expected = one["latency"][name]
            assert (row[name] == "") == (expected is None)
            assert not row[name] or float(row[name]) == pytest.approx(expected, rel=1e-6)
    # 20 ms, and IREE takes 5 ms.
    assert float(rows[0]["speedup_vs_openvino"]) == pytest.approx(4.0)


def test_what_a_model_was_called_with_is_in_columns_and_what_does_not_fit_one_is_in_the_record(
    results, aggregate
):
    def resolve(**resolved) -> None:
        path = Path("results/reference/conv/signature.json")
        found = json.loads(path.read_text()) | {"layers": 2, "vocab_size": 8192}
        path.write_text(json.dumps(found | {"resolved": resolved}))

    given = {"size": 7, "seq_len": 128, "cache_len": 160, "pretrained": False, "seed": 3}
    keys = (*given, "layers", "vocab_size")
    rows, records = aggregate(then=lambda: resolve(**given, width=4))
    assert [rows[0][key] for key in keys] == ["7", "128", "160", "False", "3", "2", "8192"]
    assert records[0]["reference"]["resolved"] == given | {"width": 4}
    odd = {"size": [1], "seq_len": "long", "cache_len": True, "pretrained": "no", "seed": 2**70}
    rows, records = aggregate(then=lambda: resolve(**odd))
    assert [rows[0][key] for key in odd] == [""] * 5
    assert records[0]["reference"]["resolved"] == odd


def test_a_model_whose_reference_failed_has_the_options_of_its_entry(results, aggregate, ended):
    tiny = dataclasses.replace(results.matrix.models["tiny"], options={"size": "s", "seed": 1})
    results.matrix = dataclasses.replace(results.matrix, models={"tiny": tiny})
    rows, _ = aggregate(ended("error", "reference", "tiny"))
    assert (rows[0]["size"], rows[0]["seed"], rows[0]["seq_len"]) == ("s", "1", "")


def test_numbers_keep_seven_digits(results):
    results.write()
    found = record.records(results.matrix)
    found[0]["latency"]["ms"] = 1.23456789
    assert "1.234568" in "".join(row_set.to_csv(found, COLUMNS)).splitlines()[1].split(",")


def test_a_record_that_contradicts_itself_stops_the_aggregate_and_is_named(results, capsys):
    results.write()
    found = record.records(results.matrix)
    found[1]["verification"]["code"] = "FAIL"
    with pytest.raises(SystemExit) as ended:
        list(latency_page.ROW_SET.checked(found))
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said == "error: record conv/mlir/vulkan: ok with a latency and verification FAIL\n"


DAMAGED = [b"", b'{"status": "ok", "st', b"[]", b"null", b"\xff\xfe\x00", b"{}", None]


@pytest.mark.parametrize("content", DAMAGED)
@pytest.mark.parametrize(
    ("file", "cells"),
    [
        ("verify/conv/mlir/vulkan/status.json", ["conv/mlir/vulkan"]),
        ("verify/conv/mlir/vulkan/verification.json", ["conv/mlir/vulkan"]),
        ("verify/conv/mlir/vulkan/usage.json", []),
        ("compile/conv/mlir/vulkan/report.json", ["conv/mlir/vulkan"]),
        ("export/conv/mlir/report.json", ["conv/mlir/llvm-cpu", "conv/mlir/vulkan"]),
        ("baseline/tiny/eager/eval/verification.json", ["tiny/eager/eval"]),
        ("baseline/tiny/eager/eval/usage.json", []),
        ("time/conv/cpu/eval/status.json", ["conv/mlir/llvm-cpu", "conv/eager/eval"]),
        ("time/conv/cpu/eval/timing.json", ["conv/mlir/llvm-cpu", "conv/eager/eval"]),
        ("reference/conv/status.json", ["conv/mlir/llvm-cpu", "conv/mlir/vulkan", "conv/eager/eval"]),
    ],
)  # fmt: skip
def test_a_damaged_file_is_rows_that_say_so_and_due_again(aggregate, file, cells, content):
    path = Path("results") / file
    rows, records = aggregate(
        then=lambda: path.unlink() if content is None else path.write_bytes(content)
    )
    named = {str(results_file.cell_of(one)): row for one, row in zip(records, rows, strict=True)}
    found = {cell for cell, row in named.items() if row["status"] == "damaged"}
    if path.name == "usage.json" and content not in (b"{}", None):
        assert len(found) == 1
    elif path.name != "usage.json":
        assert found == set(cells)
    for cell in found:
        row = named[cell]
        assert (row["reason"], row["stage"]) == ("damaged-file", file.split("/")[0])
        assert path.name in row["detail"]
        assert (row["latency_ms"], row["verification_code"]) == ("", "VERIFIER_DIDNT_RUN")
    status = path.with_name("status.json")
    due = fingerprint.due(status, "c0de")
    assert due.startswith("c0de+") or (due == "c0de" and not status.exists())
    assert {row["status"] for cell, row in named.items() if cell not in found} == {"ok"}


def test_rows_of_older_code_are_marked(aggregate, ended):
    def now(stage: str, of: str) -> None:
        status = Path("results", stage, of, "status.json")
        code = str(STAGES[stage].version)
        outcome.write(status, replace(outcome.read(status), fingerprint=code), Usage(1, 1))

    def run_some_now() -> None:
        now("verify", "conv/mlir/llvm-cpu")  # its group is older
        now("time", "tiny/cpu/eval")  # the verifications are older
        for stage, of in (("verify", "conv/mlir/vulkan"), ("time", "conv/vulkan/eval")):
            now(stage, of)

    rows, _ = aggregate(ended("error", "compile", "tiny/mlir/vulkan"), then=run_some_now)
    assert [row["stale"] for row in rows] == ["True", "False", "True", "False", "True", "True"]


def test_a_full_disk_is_one_line_and_leaves_the_csv_of_before(aggregate, monkeypatch, capsys):
    aggregate()
    before, write = Path("latency.csv").read_bytes(), atomic.write_parts

    def full(path: Path, parts: Iterable[str]) -> None:
        if Path(path).name == "latency.csv":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, parts)

    monkeypatch.setattr(atomic, "write_parts", full)
    with pytest.raises(SystemExit) as ended:
        aggregate()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert (
        said == "error: [Errno 28] No space left on device; the next run makes latency.csv again\n"
    )
    assert Path("latency.csv").read_bytes() == before


VERIFIED = "verify/conv/mlir/vulkan/verification.json"
BASELINE = "baseline/tiny/eager/eval/verification.json"
TIMED = "time/conv/vulkan/eval/timing.json"
NAN = float("nan")


def member(**changed) -> dict:
    return {"members": {"conv/mlir/vulkan": {"values_ms": [2.0]} | changed}}


OTHER_SHAPES = [
    (VERIFIED, {"verification": None}, "Expected `object`, got `null` - at `$.verification`"),
    (VERIFIED, {"threads": 2.5}, "`$.threads`"),
    (VERIFIED, {"versions": {"iree": 3}}, "`$.versions[...]`"),
    (TIMED, {"members": {}}, "lacks conv/mlir/vulkan"),
    (TIMED, member(values_ms=[]), "members.conv/mlir/vulkan is ok and has no latency"),
    (TIMED, member(values_ms=[2.0, -1.0]), "values_ms has a value that is not above 0"),
    (TIMED, member(values_ms=[2.0, NAN]), "Out of range float values are not JSON compliant"),
    (TIMED, member(part=7), "part is 7, and there are 1 parts"),
    (BASELINE, {"runs": [{"iterations": 1}]}, "missing required field `total_s` - at `$.runs[0]`"),
    (BASELINE, {"runs": [{"total_s": 0, "iterations": 1}]}, "runs: Expected `float` > 0.0 - at `$[0].total_s`"),
    (BASELINE, {"verification": {"code": "FINE", "detail": "", "max_abs_error": 0, "rmse_vs_fp64": 0,
                                 "golden_rmse_vs_fp64": 0, "tol": 0}},
     "verification: Invalid enum value 'FINE' - at `$.code`"),
    ("compile/conv/mlir/vulkan/report.json", {"vmfb_bytes": "many"}, "Expected `int`, got `str` - at `$.vmfb_bytes`"),
    ("export/conv/mlir/report.json", {"rewrites": None}, "Expected `array`, got `null` - at `$.rewrites`"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "change", "said"), OTHER_SHAPES)
def test_a_file_of_another_shape_is_rows_that_say_so_and_due_again(aggregate, file, change, said):
    """Valid JSON that the stage would not write, from an older version or edited by hand."""
    path = Path("results") / file

    def edit() -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | change))

    rows, _ = aggregate(then=edit)
    damaged = [row for row in rows if row["status"] == "damaged"]
    assert len(damaged) == (2 if file.startswith("export") else 1)
    for row in damaged:
        assert (row["reason"], row["stage"]) == ("damaged-file", file.split("/")[0])
        assert row["detail"].startswith(str(path))
        assert said in row["detail"]
        assert row["detail"].endswith("; the next run makes it again")
        assert (row["latency_ms"], row["verification_code"]) == ("", "VERIFIER_DIDNT_RUN")
    assert {row["status"] for row in rows if row not in damaged} == {"ok"}
    assert fingerprint.due(path.with_name("status.json"), "c0de") == "c0de+1"


def test_fields_that_are_left_out_have_their_defaults(aggregate):
    path = Path("results") / BASELINE

    def edit() -> None:
        data = json.loads(path.read_text())
        del data["max_rss_mb"]
        data["runs"] = [{"total_s": run["total_s"]} for run in data["runs"]]
        path.write_text(json.dumps(data | {"of_a_later_version": 1}))

    rows, records = aggregate(then=edit)
    assert {row["status"] for row in rows} == {"ok"}
    assert records[-1]["runs"][0]["iterations"] == 1


def test_a_wrong_result_that_claims_to_be_right_contradicts_itself(aggregate, ended):
    path = Path("results") / VERIFIED
    whole = []
    aggregate(then=lambda: whole.append(path.read_text()))
    wrong = ended("error", "verify", "conv/mlir/vulkan", "wrong-result")
    rows, _ = aggregate(wrong, then=lambda: path.write_text(whole[0]))
    assert rows[1]["status"] == "damaged"
    assert "verification.code PASS of a stage that ended as error" in rows[1]["detail"]
