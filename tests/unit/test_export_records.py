"""export_records: results.jsonl in the formats of other tools, and what is rejected."""

from __future__ import annotations

import json
import os
import sys

import pytest

from scripts.cli import export as export_records

ENDED = 1_800_000_000.5


def record(
    runtime: str = "eager",
    model: str = "net",
    *,
    values_ms=(20.0, 30.0, 40.0, 50.0, 60.0),
    first_call_ms: float = 1000.0,
    device_name: str | None = "A CPU",
    **experiment,
) -> dict:
    """A record as results.jsonl has it."""
    is_iree = runtime == "iree"
    names = {"frontend": "mlir", "target": "llvm-cpu"} if is_iree else {"frontend": None, "target": None}  # fmt: skip
    usual = {"test": "eval", "dtype": "f32", "batch_size": 3, "device": "cpu", "runtime": runtime}
    return {
        "model": {"name": model, "suite": "zoo", "file": "models/net.py", "options": {}},
        "experiment": usual | names | {"backend": None, "device_uri": "cpu"} | experiment,
        "outcome": {"status": "ok", "stage": "verify", "reason": "", "detail": ""},
        "verification": {"code": "PASS"},
        "latency": {"ms": 40.0, "values_ms": list(values_ms), "calls": 4 * len(values_ms)},
        "runs": [run_of(first_call_ms / 1e3, 1)],
        "run": {"device_name": device_name, "threads": 2, "first_call_ms": first_call_ms},
        "export": None,
        "compile": {"compile_s": 7.5} if is_iree else None,
        "versions": {},
    }


def failed(runtime: str = "eager", status: str = "error", detail: str = "it broke", **more) -> dict:
    """A record of a cell that was not measured."""
    made = record(runtime, device_name=None, **more) | {"latency": None, "runs": None}
    made["outcome"] |= {"status": status, "detail": detail}
    made["verification"]["code"] = "VERIFIER_DIDNT_RUN"
    return made


def with_runs(made: dict, *runs: dict) -> dict:
    return made | {"runs": list(runs)}


def run_of(total_s: float, iterations: int = 2, **more) -> dict:
    unknown = dict.fromkeys(("trace_s", "compile_s", "compile_count", "execute_s", "execute_count"))
    return {"total_s": total_s, "iterations": iterations} | unknown | more


class Exporter:
    """Writes records to a file of their own, and exports that as the command line would."""

    def __init__(self, folder, monkeypatch, capsys):
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys
        self.results = folder / "results.jsonl"
        self.notes = ""

    def write(self, *records: dict) -> None:
        self.results.write_text("".join(json.dumps(one) + "\n" for one in records))
        os.utime(self.results, (ENDED, ENDED))

    def __call__(self, name: str, *arguments: str):
        """What was written: a path. What was said on stderr: `notes`."""
        command = ["export", "--format", name, "--results", str(self.results), *arguments]
        self.monkeypatch.setattr(sys, "argv", command)
        try:
            export_records.main()
        finally:
            said = self.capsys.readouterr()
            self.notes = said.err
        return [export_records.Path(line) for line in said.out.splitlines()]

    def refuses(self, name: str, *arguments: str) -> str:
        """What was said when nothing was written."""
        before = sorted(self.folder.rglob("*"))
        with pytest.raises(SystemExit) as ended:
            self(name, *arguments)
        assert ended.value.code in (1, 2)
        assert sorted(self.folder.rglob("*")) == before
        return self.notes

    def xla(self, *records: dict, options=()) -> list[dict]:
        self.write(*records)
        [path] = self("torchbench-xla", *options)
        return [json.loads(line, parse_constant=pytest.fail) for line in path.open()]

    def google(self, *records: dict, options=()) -> dict:
        self.write(*records)
        [path] = self("google-benchmark", *options)
        return json.loads(path.read_text(), parse_constant=pytest.fail)


@pytest.fixture
def export(tmp_path, monkeypatch, capsys):
    return Exporter(tmp_path, monkeypatch, capsys)


FORMATS = ("torchbench-xla", "google-benchmark", "pytorch-hud")


# The command line


def test_every_module_of_the_folder_is_a_format():
    assert set(export_records.formats()) == {*FORMATS, "backendbench"}  # of operator problems
    for module in export_records.formats().values():
        assert module.__doc__
        assert callable(module.render)
        assert callable(module.add_options)


@pytest.mark.parametrize("name", FORMATS)
def test_without_out_the_files_are_in_a_folder_of_their_own_beside_the_results(export, name):
    export.write(record())
    paths = export(name)
    assert paths
    assert {path.parent for path in paths} == {export.folder / name}


def test_out_names_the_file_or_a_folder_that_is_there(export, tmp_path):
    export.write(record())
    assert export("google-benchmark", "--out", str(tmp_path / "a/b.json")) == [tmp_path / "a/b.json"]  # fmt: skip
    assert export("google-benchmark", "--out", str(tmp_path / "a")) == [tmp_path / "a/google-benchmark.json"]  # fmt: skip


@pytest.fixture
def of_several_files(export, monkeypatch):
    """Makes a format write files of these names."""
    export.write(record())
    module = export_records.formats()["pytorch-hud"]
    return lambda *names: monkeypatch.setattr(
        module, "render", lambda *_: dict.fromkeys(names, "text")
    )


def test_several_files_are_in_a_folder_and_not_written_over_a_file(
    export, of_several_files, tmp_path
):
    of_several_files("a.csv", "b/c.csv")
    folder = tmp_path / "new"
    assert export("pytorch-hud", "--out", str(folder)) == [folder / "a.csv", folder / "b/c.csv"]
    (tmp_path / "there").write_text("kept")
    said = export.refuses("pytorch-hud", "--out", str(tmp_path / "there"))
    assert "there: this format writes several files; name a folder" in said


@pytest.mark.parametrize("name", ["../x.csv", "/tmp/x.csv", "..", "a/../b.csv", "a\x1b.csv"])
def test_a_name_that_leaves_the_folder_is_refused(export, of_several_files, tmp_path, name):
    of_several_files(name)
    said = export.refuses("pytorch-hud", "--out", str(tmp_path / "out"))
    assert "expected one that stays in its folder" in said


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{broken", "not valid JSON"),
        ('{"a": NaN}', "not valid JSON (JSON is malformed: invalid character (byte 6))"),
        ("[1]", "Expected `object`, got `array`"),
        ('{"timestamp": 1}', "Object missing required field `model`"),
        (record() | {"runs": []}, "Expected `array` of length >= 1 - at `$.runs`"),
        (record() | {"runs": [{"iterations": 1}]}, "Object missing required field `total_s` - at `$.runs[0]`"),
        (record() | {"runs": [run_of(1.0, 0)]}, "Expected `int` >= 1 - at `$.runs[0].iterations`"),
        (record() | {"runs": [run_of(1.0, median_s=1.0)]}, "Object contains unknown field `median_s` - at `$.runs[0]`"),
        (record(test="warm"), "Invalid enum value 'warm' - at `$.experiment.test`"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_is_named_with_its_number(export, line, why):
    text = line if isinstance(line, str) else json.dumps(line)
    export.results.write_text(json.dumps(record()) + "\n\n" + text + "\n")
    assert f"error: {export.results}:3: {why}" in export.refuses("torchbench-xla")


def test_a_missing_file_is_named_with_what_to_do(export):
    said = export.refuses("pytorch-hud")
    assert f"error: {export.results}: no such file; run `vmfbench run` first" in said


XLA = "torchbench-xla"


@pytest.mark.parametrize(
    ("rows", "name", "options", "said"),
    [
        ([], "pytorch-hud", [], "nothing to export: the file has no record"),
        ([record(), record("inductor")], XLA, ["--only", "runtime=iree"], "no record matches --only 'runtime=iree'; runtime is one of: eager, inductor"),
        ([record()], XLA, ["--cell", "none/*"], "no record matches --cell none/*; there are: net/eager/eval"),
        ([record()], XLA, ["--only", "runtime"], "is not KEY=GLOB with KEY one of: cell, device"),
        ([record()], XLA, ["--only", "colour=red"], "is not KEY=GLOB with KEY one of: cell, device"),
        ([record()], XLA, ["--timestamp=nan"], "seconds since the epoch"),
        ([record()], XLA, ["--timestamp=-1"], "seconds since the epoch"),
        ([record()], "google-benchmark", ["--alias-iree", "*"], "--alias-iree"),
        ([failed()], "google-benchmark", ["--measured-only"], "no cell was measured"),
        ([record("iree")], XLA, [], "nothing to export: there are only IREE cells; add --alias-iree with one of: mlir/llvm-cpu"),
        ([record(), record("iree")], XLA, ["--alias-iree", "hlo/*"], "'hlo/*' matches no IREE cell; there are: mlir/llvm-cpu"),
        ([record("iree"), record("iree", target="other")], XLA, ["--alias-iree", "*"], "name one lowering path with --alias-iree: mlir/llvm-cpu, mlir/other"),
        ([record(), failed("inductor", device="cuda")], XLA, ["--accelerator-model", "A100"], "cpu and cuda one name; choose one, such as --only device=cpu"),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_refused_with_what_to_do(export, rows, name, options, said):
    export.write(*rows)
    assert said in export.refuses(name, *options)


def test_only_selects_and_a_key_that_a_record_lacks_is_empty(export):
    rows = [record(), record("inductor"), record(model="other", precision="bf16")]
    chosen = export.xla(*rows, options=["--only", "model=n*", "--only", "runtime=inductor"])
    assert [row["experiment"]["dynamo"] for row in chosen] == ["inductor"]
    assert len(export.xla(*rows, options=["--only", "precision=none"])) == 2
    assert len(export.xla(*rows, options=["--only", "xla_flags="])) == 3
    assert len(export.xla(*rows, options=["--only", "cell=other/eager/eval"])) == 1


def test_cells_are_selected_by_globs_of_their_names(export):
    rows = [record(), record("inductor"), record(model="other")]
    chosen = export.xla(*rows, options=["--cell", "*/inductor/*", "--cell", "other/*"])
    assert len(chosen) == 2
    assert len(export.xla(*rows, options=["--cell", "!other/*", "--only", "runtime=eager"])) == 1


@pytest.mark.parametrize("name", FORMATS)
def test_two_runs_in_one_file_are_refused(export, name):
    export.write(record(), record("inductor"), record())
    said = export.refuses(name)
    assert f"{export.results}:1 (net/eager/eval) and {export.results}:3 (net/eager/eval)" in said
    assert "two runs in one file" in said


@pytest.mark.parametrize("name", FORMATS)
def test_records_that_the_reader_would_merge_are_refused_with_how_to_choose(export, name):
    export.write(record(dtype="f32", xla_flags="--a"), record(dtype="f32", xla_flags="--b"))
    said = export.refuses(name)
    assert "--only 'xla_flags=--a' or --only 'xla_flags=--b'" in said
    assert export(name, "--only", "xla_flags=--b")


# torchbench-xla


EXPERIMENT_KEYS = {
    "accelerator", "accelerator_model", "xla", "xla_flags", "dynamo", "torch_xla2",
    "keep_model_data_on_cuda", "test", "batch_size", "enable_functionalization",
}  # fmt: skip


def all_numbers(metrics: dict) -> bool:
    values = [value for listed in metrics.values() for value in listed]
    return bool(values) and all(type(value) in (int, float) for value in values)


@pytest.mark.parametrize(
    ("runtime", "xla", "dynamo"),
    [
        ("eager", None, None),
        ("inductor", None, "inductor"),
        ("xla", "PJRT", None),
        ("openxla", "PJRT", "openxla"),
    ],
)
@pytest.mark.parametrize("measured", [True, False])
def test_every_key_is_there_for_every_runtime_measured_or_not(
    export, runtime, xla, dynamo, measured
):
    one = record(runtime, xla_flags="--f") if measured else failed(runtime, xla_flags="--f")
    [row] = export.xla(one)
    assert set(row) == {
        "model", "experiment", "repeat", "iterations_per_run", "metrics", "timestamp",
        "verification_code",
    }  # fmt: skip
    assert row["model"] == {"suite_name": "zoo", "model_name": "net"}
    assert set(row["experiment"]) == EXPERIMENT_KEYS
    assert row["experiment"]["xla"] == xla
    assert row["experiment"]["dynamo"] == dynamo
    assert row["experiment"]["xla_flags"] == "--f"
    assert row["experiment"]["torch_xla2"] is None
    assert row["experiment"]["keep_model_data_on_cuda"] is False
    assert row["experiment"]["enable_functionalization"] is False
    assert (row["experiment"]["test"], row["experiment"]["batch_size"]) == ("eval", 3)
    assert row["timestamp"] == ENDED
    if measured:
        assert all_numbers(row["metrics"])
    else:
        assert (row["metrics"], row["repeat"]) == ({"error": "error: it broke"}, 0)
        assert row["verification_code"] == "VERIFIER_DIDNT_RUN"


def test_the_cold_run_is_first_and_then_a_call_of_each_process_with_the_counts_of_the_warm_run(
    export,
):
    cold = run_of(9.0, 1, trace_s=3.0, compile_s=5.0, compile_count=2, execute_s=0.5, execute_count=1)  # fmt: skip
    warm = run_of(0.5, 1, trace_s=0.25, compile_s=0.0, compile_count=0, execute_s=0.125, execute_count=1)  # fmt: skip
    [row] = export.xla(with_runs(record("openxla", values_ms=(20.0, 30.0)), cold, warm))
    assert (row["iterations_per_run"], row["repeat"]) == (1, 3)
    assert row["metrics"] == {
        "total_time": pytest.approx([9.0, 0.02, 0.03]),
        "per_iter_time": pytest.approx([9.0, 0.02, 0.03]),
        "trace_total_time": [3.0, 0.25, 0.25],
        "trace_per_iter_time": [3.0, 0.25, 0.25],
        "xla_CompileTime_time_s": [5.0, 0.0, 0.0],
        "xla_CompileTime_number": [2, 0, 0],
        "xla_ExecuteTime_time_s": [0.5, 0.125, 0.125],
        "xla_ExecuteTime_number": [1, 1, 1],
    }


def test_what_a_runtime_does_not_count_is_left_out_and_an_unused_counter_is_zero(export):
    cold = run_of(9.0, trace_s=3.0, compile_s=5.0, compile_count=2)
    of_xla, of_inductor = export.xla(
        with_runs(record("xla", values_ms=[1.0]), cold, run_of(1.0)),
        with_runs(record("inductor"), cold, cold),
    )
    assert of_xla["metrics"]["xla_CompileTime_time_s"] == [5.0, 0]
    assert not {"trace_total_time", "xla_ExecuteTime_time_s"} & set(of_xla["metrics"])
    assert all_numbers(of_xla["metrics"])
    assert set(of_inductor["metrics"]) == {"total_time", "per_iter_time"}


def test_the_accelerator_and_the_time_can_be_given(export):
    options = ["--accelerator-model", "A100", "--timestamp", "123.5"]
    rows = export.xla(record(), failed("inductor"), options=options)
    assert {(row["experiment"]["accelerator_model"], row["timestamp"]) for row in rows} == {("A100", 123.5)}  # fmt: skip


def test_a_line_separator_in_a_message_ends_no_line(export):
    one = failed(detail="above\u2028below")
    export.results.write_text(json.dumps(one, ensure_ascii=False) + "\n", encoding="utf-8")
    [path] = export("torchbench-xla")
    [line] = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["metrics"]["error"] == "error: above\u2028below"


def test_an_accelerator_is_named_by_a_cell_that_ran_on_it_else_by_its_kind(export):
    rows = export.xla(
        failed(), record("inductor", device_name="A CPU"), failed("inductor", device="cuda")
    )
    assert [row["experiment"]["accelerator_model"] for row in rows] == ["A CPU", "A CPU", "cuda"]
    assert [row["experiment"]["accelerator"] for row in rows] == ["cpu", "cpu", "cuda"]


def test_an_aliased_iree_cell_takes_the_place_of_openxla(export):
    rows = export.xla(
        record(), record("openxla"), record("xla"), record("iree"),
        options=["--alias-iree", "mlir/*"],
    )  # fmt: skip
    assert [(row["experiment"]["xla"], row["experiment"]["dynamo"]) for row in rows] == [
        (None, None), ("PJRT", None), ("PJRT", "openxla"),
    ]  # fmt: skip
    flags = "--iree_frontend=mlir --iree_target=llvm-cpu --iree_device=cpu"
    assert rows[-1]["experiment"]["xla_flags"] == flags
    assert "takes the place of openxla: net/openxla" in export.notes


def test_the_cold_run_of_an_iree_cell_has_the_seconds_of_iree_compile(export):
    alias = ["--alias-iree", "*"]
    [row] = export.xla(record("iree", values_ms=(20.0, 30.0), first_call_ms=500.0), options=alias)
    assert row["metrics"] == {
        "total_time": pytest.approx([8.0, 0.02, 0.03]),
        "per_iter_time": pytest.approx([8.0, 0.02, 0.03]),
        "xla_CompileTime_time_s": [7.5, 0, 0],
        "xla_CompileTime_number": [1, 0, 0],
    }
    assert all_numbers(row["metrics"])


@pytest.mark.parametrize(
    ("rows", "written", "note"),
    [
        ([record(), record("iree")], 1, "left out 1 IREE cells, which the format has no name for; --alias-iree FRONTEND/TARGET writes those of one lowering path: mlir/llvm-cpu"),
        ([record(), record("tvm")], 1, "left out, the format has no such runtime: net/tvm"),
        ([record(values_ms=(1.0, 2.0)), record("inductor", values_ms=(1.0, 2.0, 3.0))], 2, "fewer than 4 samples, so aggregate.py --metric exec leaves out: net/eager/eval\n"),
        ([record(), failed(dtype="f16")], 2, ""),  # a failed row hides nothing
        ([record(), record(device="cuda", device_name="A GPU"), record(batch_size=8), record(test="train")], 4, ""),
    ],
)  # fmt: skip
def test_what_is_left_out_is_named(export, rows, written, note):
    assert len(export.xla(*rows)) == written
    assert note in export.notes


# google-benchmark


def test_repetitions_then_aggregates_as_the_library_writes_them(export):
    made = export.google(record("iree", values_ms=(1.0, 2.0, 6.0)))
    entries = made["benchmarks"]
    assert [entry["name"] for entry in entries] == [
        *["net/mlir/llvm-cpu"] * 3,
        *(f"net/mlir/llvm-cpu_{name}" for name in ("mean", "median", "stddev", "cv")),
    ]
    assert entries[1] == {
        "name": "net/mlir/llvm-cpu",
        "family_index": 0,
        "per_family_instance_index": 0,
        "run_name": "net/mlir/llvm-cpu",
        "run_type": "iteration",
        "repetitions": 3,
        "repetition_index": 1,
        "threads": 1,
        "iterations": 4,
        "real_time": 2000.0,
        "cpu_time": 0.0,
        "time_unit": "us",
    }
    assert [entry["repetition_index"] for entry in entries[:3]] == [0, 1, 2]
    aggregates = {entry["aggregate_name"]: entry for entry in entries[3:]}
    assert {e["run_name"] for e in entries} == {"net/mlir/llvm-cpu"}
    assert {e["run_type"] for e in aggregates.values()} == {"aggregate"}
    assert {e["iterations"] for e in aggregates.values()} == {3}
    assert aggregates["mean"]["real_time"] == pytest.approx(3000.0)
    assert aggregates["median"]["real_time"] == pytest.approx(2000.0)
    assert aggregates["stddev"]["real_time"] == pytest.approx(7_000_000**0.5)
    assert aggregates["cv"]["real_time"] == pytest.approx(7**0.5 / 3)
    assert [a["aggregate_unit"] for a in aggregates.values()] == ["time"] * 3 + ["percentage"]


def test_names_say_the_cell_and_what_is_unusual(export):
    made = export.google(
        record(values_ms=[1.0]),
        record(values_ms=[1.0], target="eager-cuda", device="cuda"),
        record("inductor", values_ms=[1.0], test="train", precision="amp-bf16"),
        record("iree", values_ms=[1.0]),
        record("iree", values_ms=[1.0], precision="bf16"),
    )
    assert [entry["name"] for entry in made["benchmarks"]] == [
        "net/eager/eval",
        "net/eager-cuda/eval",
        "net/inductor/train/amp-bf16",
        "net/mlir/llvm-cpu",
        "net/mlir/llvm-cpu/bf16",
    ]


def test_a_family_is_a_model_and_an_instance_a_cell(export):
    made = export.google(record(), record(model="b"), failed("inductor", model="b"))
    found = {
        (e["run_name"], e["family_index"], e["per_family_instance_index"])
        for e in made["benchmarks"]
    }
    assert found == {("net/eager/eval", 0, 0), ("b/eager/eval", 1, 0), ("b/inductor/eval", 1, 1)}


def test_a_failed_cell_is_an_entry_with_an_error(export):
    [entry] = export.google(failed(status="oom", detail="too big"))["benchmarks"]
    assert entry["error_occurred"] is True
    assert entry["error_message"] == "oom: too big"
    assert entry["run_type"] == "iteration"
    assert (entry["real_time"], entry["cpu_time"], entry["iterations"]) == (0.0, 0.0, 0)
    assert (entry["repetitions"], entry["repetition_index"], entry["threads"]) == (1, 0, 1)
    assert entry["time_unit"] == "us"
    assert "--measured-only" in export.notes


def test_measured_only_leaves_failed_cells_out_and_one_repetition_has_no_aggregates(export):
    rows = record(values_ms=(1.0,)), failed("inductor")
    [entry] = export.google(*rows, options=["--measured-only"])["benchmarks"]
    assert entry["run_name"] == "net/eager/eval"
    assert "error_occurred" not in export.notes
    assert "CPU times are not recorded; cpu_time is 0" in export.notes


def test_the_context_has_the_date_the_schema_version_and_the_devices(export):
    context = export.google(record(), failed("inductor"))["context"]
    assert context == {
        "date": "2027-01-15T08:00:00+00:00",
        "executable": "vmfbench",
        "json_schema_version": 1,
        "devices": "A CPU",
    }


def test_the_profilers_totals_are_lists_of_one_number_and_nothing_else_of_a_profile_is(export):
    row = record("xla")
    row["run"]["profile"] = {
        "profiler": {"total_cpu_time_s": 0.25, "total_cuda_time_s": 0.0},
        "operators": {"aten::nonzero": {"num_of_calls": 2}},
        "dynamo_counters": {"frames": {"ok": 1}},
    }
    metrics = export.xla(row)[0]["metrics"]
    assert (metrics["total_cpu_time_s"], metrics["total_cuda_time_s"]) == ([0.25], [0.0])
    assert not {"operators", "dynamo_counters", "profiler"} & metrics.keys()


# pytorch-hud


TEXTS = {"name", "mode", "dtype", "type", "backend", "repo", "branch", "sha", "version"}


def texts(value: dict) -> None:
    """The columns of the database's table: texts, and maps from texts to texts."""
    for key, inner in value.items():
        if key == "extra_info":
            assert all(isinstance(part, str) for pair in inner.items() for part in pair), inner
        elif key in TEXTS:
            assert isinstance(inner, str), value


def test_the_database_of_pytorch_gets_a_record_per_value(export):
    made, bad = record("iree"), failed("iree", model="bad")
    made["versions"] = bad["versions"] = {"iree": "3.13.0", "iree_build": "rc1", "torch": None}
    export.write(made, bad)
    [path] = export("pytorch-hud", "--benchmark", "mine")
    entries = json.loads(path.read_text(), parse_constant=pytest.fail)
    for entry in entries:
        assert set(entry) == {"benchmark", "model", "dependencies", "metric"}
        assert entry["benchmark"]["name"] == "mine"
        for part in (entry["benchmark"], entry["model"], entry["metric"], *entry["dependencies"].values()):  # fmt: skip
            texts(part)
        assert entry["model"]["origins"] == ["zoo"]
    metrics = {(e["model"]["name"], e["metric"]["name"]): e["metric"]["benchmark_values"] for e in entries}  # fmt: skip
    assert metrics["net", "ok"] == [1.0]
    assert metrics["net", "latency_ms"] == made["latency"]["values_ms"]
    assert metrics["net", "compile_s"] == [7.5]
    assert [key for key in metrics if key[0] == "bad"] == [("bad", "ok")]
    assert metrics["bad", "ok"] == [0.0]
    assert entries[0]["dependencies"]["iree"]["version"] == "3.13.0"
    assert entries[0]["dependencies"]["iree"]["extra_info"] == {"build": "rc1"}
