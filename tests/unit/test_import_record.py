"""A row that was measured elsewhere: the bundle, the record that it writes, and the row that is imported."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import aggregate_results, import_record
from scripts.lib.bundling import elsewhere
from scripts.lib.core import atomic
from scripts.lib.report import results_file

CELL = "conv/mlir/llvm-cpu"
NAMED = "conv/mlir/llvm-cpu@laptop"


@pytest.fixture
def aggregate(results, monkeypatch):
    """Aggregates the results of the working folder; returns its records by cell."""

    def run() -> dict[str, results_file.Record]:
        atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
        words = ["--matrix", "results/logs/matrix.json", "--out-csv", "results/latency.csv"]
        words += ["--out-jsonl", "results/results.jsonl", "--out-md", "results/latency.md"]
        monkeypatch.setattr(sys, "argv", ["x", *words])
        aggregate_results.main()
        return {one["cell"]: one for one in results_file.read(Path("results/results.jsonl"))}

    return run


@pytest.fixture
def made(results, aggregate) -> dict:
    """A record.json of the cell, with one round, as the bundle's script writes it."""
    results.write()
    row = aggregate()[CELL].data
    measurement = json.loads(Path(f"results/measure/{CELL}/measurement.json").read_text())
    return {
        "format": 1,
        "name": "laptop",
        "system": "Linux aarch64",
        "cores": 8,
        "row": row,
        "fingerprint": "c0de",
        "rounds": [{"returncode": 0, "measurement": measurement, "log": "loaded"}],
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
    assert f"{NAMED}: ok (5 ms, trust low)" in imports(made)
    for _ in range(2):
        rows = aggregate()
        assert rows[CELL]["imported"] is None
        row = rows[NAMED]
        assert row["imported"] == "laptop"
        assert row.data["imported"] == {"system": "Linux aarch64", "cores": 8}
        assert row.data["latency"]["values_ms"] == [4.0, 5.0, 6.0]
        assert (
            row.data["latency"]["speedup_vs_eager"] is None
        )  # the CPU of the laptop has the same name, and eager was not measured there
        assert row.data["compile"] == rows[CELL].data["compile"]


def test_a_record_of_the_same_machine_and_cell_replaces_the_earlier_one(made, imports, aggregate):
    imports(made)
    made["rounds"][0]["measurement"]["latency"]["values_ms"] = [1.0, 1.0, 1.0]
    imports(made)
    assert aggregate()[NAMED].data["latency"]["median_ms"] == 1.0


def test_a_failure_elsewhere_is_a_row_with_its_reason(made, imports, aggregate):
    made["rounds"] = [{"returncode": -4, "measurement": None, "log": "loading on A CPU\n"}]
    imports(made)
    ended = aggregate()[NAMED].data["outcome"]
    assert (ended["status"], ended["reason"], ended["stage"]) == ("crashed", "SIGILL", "measure")


def test_wrong_results_elsewhere_have_no_latency(made, imports, aggregate):
    [one] = made["rounds"]
    one["measurement"] |= {"latency": None, "host": None}
    one["measurement"]["verification"] |= {"code": "FAIL", "detail": "worst at [0]"}
    made["rounds"] = [one | {"returncode": 4, "log": "error: FAIL: worst at [0]"}]
    imports(made)
    row = aggregate()[NAMED].data
    assert row["outcome"]["reason"] == "wrong-result"
    assert row["latency"] is None
    assert row["verification"]["code"] == "FAIL"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "not a record.json of format 1"),
        ({"name": "../x"}, "name '../x'"),
        ({"rounds": []}, "rounds is empty"),
        ({"row": None}, "row is NoneType, expected dict"),
        ({"rounds": [{"returncode": 0, "measurement": {"device": 1}, "log": ""}]}, "round 1: "),
        ({"rounds": [{"returncode": 0, "measurement": None, "log": ""}]}, "round 1: no latency"),
        ({"rounds": [{"returncode": 0}]}, "KeyError('measurement')"),
    ],
)
def test_what_is_no_record_is_refused(made, imports, capsys, change, said):
    with pytest.raises(SystemExit):
        imports(made | change)
    assert said in capsys.readouterr().err
    assert not Path("results/imported").exists()


def test_a_record_that_was_edited_later_is_named(made, imports, aggregate, capsys):
    imports(made)
    [path] = Path("results/imported").glob("*/*.json")
    broken = copy.deepcopy(made)
    broken["rounds"][0]["measurement"]["latency"]["values_ms"] = [-1.0]
    atomic.write_json(path, broken)
    with pytest.raises(SystemExit):
        aggregate()
    assert f"{path}: round 1: " in capsys.readouterr().err


STAGE = """
import json, pathlib, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert pathlib.Path(words["--vmfb"]).read_text() == "module"
assert ("--first" in words) == ("_2" in words["--out"])
made = json.loads(pathlib.Path("made.json").read_text())
pathlib.Path(words["--out"]).write_text(json.dumps(made))
print("measured with", words["--threads"])
"""


@pytest.fixture
def bundle(results, aggregate, tmp_path) -> Path:
    """The bundle of the cell, with a stand-in for the measurement."""
    results.write()
    status = Path(f"results/measure/{CELL}/status.json")
    reference = Path("results/reference/conv")
    for name in ("weights.irpa", "inputs.npz", "golden.npz"):
        (reference / name).write_text(name)
    for path, text in (("compile/module.vmfb", "module"), ("remedy/module.vmfb", "")):
        Path(path).parent.mkdir()
        Path(path).write_text(text)
    command = f".venvs/iree/bin/python -m scripts.measure_iree --vmfb remedy/module.vmfb compile/module.vmfb --weights {reference}/weights.irpa --inputs {reference}/inputs.npz --golden {reference}/golden.npz --signature {reference}/signature.json --device local-task --tolerance '{{}}' --rule '{{\"rounds\": 2}}' --raw-inputs x --out y"
    atomic.write_json(status, json.loads(status.read_text()) | {"command": command})
    folder = tmp_path / "bundle"
    elsewhere.write(Path(), aggregate()[CELL], folder)
    return folder


def measure(folder: Path, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "scripts.measure_elsewhere", "--pause", "0", "--threads", "3"]
    return subprocess.run([*command, "--name", "my laptop", *words], cwd=folder, capture_output=True, text=True)  # fmt: skip


def test_a_bundle_measures_with_its_own_files_alone(bundle, imports, aggregate):
    assert (bundle / "scripts/lib/verification/torch_same.py").is_file()
    assert not (bundle / "scripts/lib/report").exists()
    first = Path(f"results/measure/{CELL}/measurement.json").read_text()
    (bundle / "made.json").write_text(first)
    (bundle / "scripts/measure_iree.py").write_text(STAGE)
    done = measure(bundle)
    assert done.returncode == 0, done.stderr
    assert "measured with 3" in done.stdout
    record = json.loads((bundle / "record.json").read_text())
    assert [one["returncode"] for one in record["rounds"]] == [0, 0]
    imports(record)
    rows = aggregate()
    assert rows["conv/mlir/llvm-cpu@my-laptop"].data["latency"]["repetitions"] == 6


def test_a_bundle_of_a_number_of_threads_is_measured_with_that_number(bundle):
    described = bundle / elsewhere.BUNDLE
    atomic.write_json(described, atomic.read_json(described) | {"threads": 2})
    done = measure(bundle)
    assert done.returncode == 1
    assert "this bundle is of a row with 2 threads, found --threads 3" in done.stderr


def test_a_damaged_bundle_is_not_measured(bundle):
    (bundle / "weights.irpa").write_text("weights")
    done = measure(bundle)
    assert done.returncode == 1
    assert "weights.irpa: it has 7 bytes and was made with 12; copy the bundle again" in done.stderr
