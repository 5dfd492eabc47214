"""A row that was measured elsewhere: the bundle, the record that it writes, and the row that is imported."""

from __future__ import annotations

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.core import atomic
from scripts.core.requests import StageRequest
from scripts.measure.timing.group_timing import GroupTiming, MemberTiming, PartTiming
from scripts.results import results_file
from scripts.stages import aggregate_results
from scripts.tools.report import import_record
from scripts.tools.reproduce import bundle as bundles

CELL = "conv/mlir/llvm-cpu"
NAMED = "conv/mlir/llvm-cpu@laptop"


@pytest.fixture
def aggregate(results, monkeypatch):
    """Aggregates the results of the working folder; returns its records by cell."""

    def run() -> dict[str, results_file.Record]:
        atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
        monkeypatch.setattr(sys, "argv", ["x"])
        aggregate_results.main()
        return {one["cell"]: one for one in results_file.read(Path("results/results.jsonl"))}

    return run


def timing(*values_ms: float, **ended) -> dict:
    """The timing of the module, or of one whose process ended."""
    member = MemberTiming(**ended) if ended else MemberTiming(values_ms=values_ms, turns=9, calls=30, p50_ms=5.0, peak_rss_mb=150.0)  # fmt: skip
    part = PartTiming(len(values_ms), tuple(range(len(values_ms))))
    return dataclasses.asdict(GroupTiming(1_790_000_123.0, "{}", "", {"module": member}, (part,)))


@pytest.fixture
def made(results, aggregate) -> dict:
    """A record.json of the cell, as the bundle's script writes it."""
    results.write()
    row = aggregate()[CELL].data
    verified = json.loads(Path(f"results/verify/{CELL}/verification.json").read_text())
    return {
        "format": 2,
        "name": "laptop",
        "system": "Linux aarch64",
        "cores": 8,
        "row": row,
        "fingerprint": "c0de",
        "returncode": 0,
        "log": "loaded",
        "verified": verified,
        "timing": timing(4.0, 5.0, 6.25, 5.0, 5.0),
    }


@pytest.fixture
def imports(monkeypatch, capsys):
    def run(record: dict) -> str:
        atomic.write_json("record.json", record)
        monkeypatch.setattr(sys, "argv", ["x", "record.json"])
        import_record.main()
        return capsys.readouterr().out

    return run


def test_an_imported_row_stands_beside_that_of_this_run_in_every_aggregation(
    made, imports, aggregate
):
    assert f"{NAMED}: ok (5 ms)" in imports(made)
    for _ in range(2):
        rows = aggregate()
        assert rows[CELL]["imported"] is None
        row = rows[NAMED]
        assert row["imported"] == "laptop"
        assert row.data["imported"] == {"system": "Linux aarch64", "cores": 8}
        latency = row.data["latency"]
        assert latency["values_ms"] == [4.0, 5.0, 6.25, 5.0, 5.0]
        assert latency["ms"] == pytest.approx(5.0)
        assert latency["low_ms"] < 5.0 < latency["high_ms"]
        assert (latency["anchor"], latency["anchor_ms"]) == (None, [])
        assert row.data["run"]["max_rss_mb"] == 150.0
        # The CPU of the laptop has the same name, and eager was not timed there.
        assert latency["speedup_vs_eager"] is None
        assert row.data["compile"] == rows[CELL].data["compile"]


def test_a_record_of_the_same_machine_and_cell_replaces_the_earlier_one(made, imports, aggregate):
    imports(made)
    made["timing"] = timing(1.0, 1.0, 1.0)
    imports(made)
    assert aggregate()[NAMED].data["latency"]["ms"] == pytest.approx(1.0)


def test_a_failure_elsewhere_is_a_row_with_its_reason(made, imports, aggregate):
    made |= {"returncode": -4, "verified": None, "timing": None, "log": "loading on A CPU\n"}
    imports(made)
    ended = aggregate()[NAMED].data["outcome"]
    assert (ended["status"], ended["reason"], ended["stage"]) == ("crashed", "SIGILL", "verify")


def test_a_process_that_ended_while_it_was_timed_elsewhere_is_a_row_with_its_reason(
    made, imports, aggregate
):
    made["timing"] = timing(status="crashed", reason="SIGSEGV", detail="killed by SIGSEGV")
    imports(made)
    row = aggregate()[NAMED].data
    ended = row["outcome"]
    assert (ended["status"], ended["reason"], ended["stage"]) == ("crashed", "SIGSEGV", "time")
    assert (row["latency"], row["verification"]["code"]) == (None, "PASS")


def test_wrong_results_elsewhere_have_no_latency(made, imports, aggregate):
    made["verified"]["verification"] |= {"code": "FAIL", "detail": "worst at [0]"}
    made |= {"returncode": 4, "log": "error: FAIL: worst at [0]", "timing": None}
    imports(made)
    row = aggregate()[NAMED].data
    assert row["outcome"]["reason"] == "wrong-result"
    assert row["latency"] is None
    assert row["verification"]["code"] == "FAIL"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 1}, "not a record.json of format 2"),
        ({"name": "../x"}, "- at `$.name`"),
        ({"row": None}, "Expected `object`, got `null` - at `$.row`"),
        ({"verified": {"device": 1}}, "Expected `str`, got `int` - at `$.verified.device`"),
        ({"timing": timing(-1.0)}, "timing: members.module.values_ms has a value that is not above 0"),
        ({"timing": None}, "it is verified and has no timing"),
        ({"verified": None}, "it is verified and has no timing"),
        ({"timing": timing() | {"members": {}}}, "it is verified and has no timing"),
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(made, imports, capsys, change, said):
    with pytest.raises(SystemExit):
        imports(made | change)
    assert said in capsys.readouterr().err
    assert not Path("results/imported").exists()


def test_a_record_that_was_edited_later_is_named(made, imports, aggregate, capsys):
    imports(made)
    [path] = Path("results/imported").glob("*/*.json")
    atomic.write_json(path, made | {"timing": timing(-1.0)})
    with pytest.raises(SystemExit):
        aggregate()
    assert f"{path}: timing: " in capsys.readouterr().err


STAGE = """
import json, pathlib, sys
fields = json.loads(pathlib.Path(sys.argv[2]).read_text())["fields"]
assert pathlib.Path(*fields["vmfb"]).read_text() == "module"
made = json.loads(pathlib.Path("made.json").read_text())
pathlib.Path("verification.json").write_text(json.dumps(made))
print("verified with", fields["threads"])
"""
MODULE = """
import sys
from scripts.measure.timing import worker
assert sys.argv[1:] == ["--module=module.vmfb", "--x"]
worker.serve(worker.Program(lambda: sum(range(20_000))))
"""


@pytest.fixture
def bundle(results, aggregate, tmp_path) -> Path:
    """The bundle of the cell, with stand-ins for the verification and the process that is timed."""
    results.write()
    reference = Path("results/reference/conv")
    for name in ("weights.irpa", "inputs.npz", "golden.npz"):
        (reference / name).write_text(name)
    for path, text in (("compile/module.vmfb", "module"), ("remedy/module.vmfb", "")):
        Path(path).parent.mkdir()
        Path(path).write_text(text)
    fields = {
        "vmfb": ["remedy/module.vmfb", "compile/module.vmfb"],
        "weights": f"{reference}/weights.irpa",
        "inputs": f"{reference}/inputs.npz",
        "golden": f"{reference}/golden.npz",
        "signature": f"{reference}/signature.json",
        "device": "local-task",
        "tolerance": {},
        "exported": [],
    }
    verified = StageRequest("scripts.stages.verify_iree", ".venvs/iree/bin/python", fields)
    verified.write(Path(f"results/verify/{CELL}"))
    folder = tmp_path / "bundle"
    bundles.write_measuring(Path(), aggregate()[CELL], folder)
    (folder / "scripts/stages/verify_iree.py").write_text(STAGE)
    (folder / "scripts/stages/time_module.py").write_text(MODULE)
    verified = json.loads(Path(f"results/verify/{CELL}/verification.json").read_text())
    atomic.write_json(folder / "made.json", verified | {"flags": ["--module=module.vmfb", "--x"]})
    return folder


def measure(folder: Path, *words: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "scripts.tools.reproduce.measure_elsewhere",
        "--name",
        "my laptop",
    ]
    options = ["--budget", "0.6", "--threads", "3", *words]
    return subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True)


def test_a_bundle_measures_with_its_own_files_alone(bundle, imports, aggregate):
    assert (bundle / "scripts/measure/verify/torch_same.py").is_file()
    assert not (bundle / "scripts/results").exists()
    # Beside IREE's runtime there is numpy, and no scipy.
    (bundle / "scipy.py").write_text("raise ImportError")
    done = measure(bundle, "--budget", "3")  # enough for an interval on a busy machine
    assert done.returncode == 0, done.stderr
    assert "verified with 3" in done.stdout
    record = json.loads((bundle / "record.json").read_text())
    assert record["timing"]["parts"][0]["control"] == "module"
    imports(record)
    latency = aggregate()["conv/mlir/llvm-cpu@my-laptop"].data["latency"]
    assert latency["generations"] >= 3
    assert 0 < latency["control_low"] <= latency["control_high"]


def test_a_bundle_imports_what_its_machine_has(bundle):
    there = {*sys.stdlib_module_names, "scripts", "numpy", "iree"}
    for path in bundle.rglob("scripts/**/*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                is_from = isinstance(node, ast.ImportFrom)
                names = [node.module] if is_from else [alias.name for alias in node.names]
                assert {str(name).partition(".")[0] for name in names} <= there, path


def test_a_process_that_ends_while_it_is_timed_is_in_the_record(bundle):
    (bundle / "scripts/stages/time_module.py").write_text("import os; os.abort()")
    done = measure(bundle)
    assert done.returncode == 1
    record = json.loads((bundle / "record.json").read_text())
    assert record["timing"]["members"]["module"]["status"] == "crashed"


def test_a_bundle_of_a_number_of_threads_is_measured_with_that_number(bundle):
    described = bundle / bundles.MEASURE
    atomic.write_json(described, atomic.read_json(described) | {"threads": 2})
    done = measure(bundle)
    assert done.returncode == 1
    assert "this bundle is of a row with 2 threads, found --threads 3" in done.stderr


def test_a_damaged_bundle_is_not_measured(bundle):
    (bundle / "weights.irpa").write_text("weights")
    done = measure(bundle)
    assert done.returncode == 1
    assert "weights.irpa: it has 7 bytes and was made with 12; copy the bundle again" in done.stderr
