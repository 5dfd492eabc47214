"""results/kernels.csv, its page and its plots, from the files of the stages."""

import csv
import dataclasses
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from scripts.config import stages
from scripts.config.entries import Model
from scripts.core import atomic
from scripts.core.tensors import Signature, TensorType
from scripts.measure.timing.machine_limits import PRODUCT, TRIAD, MachineLimits, Sample
from scripts.results import speedups
from scripts.results.screen import Printed
from scripts.run import outputs
from scripts.stages import aggregate_results
from scripts.supervise.outcome import Outcome
from scripts.tools.kernels import kernels, rows
from scripts.tools.kernels.rows import COLUMNS, ROW_SET, Kernels

CSV, _, JSONL = outputs.files_of("kernels")

KERNEL = """
DIMENSIONS = ("rows", "columns")
SHAPES = ("100x200",)
READS = {"x": "rows columns", "targets": "rows: i64"}
WRITES = {"y": "rows"}
FLOPS = {"rows columns": 4}
"""
SHAPES = ("100x200", "100x400", "100x800")
LIMITS = MachineLimits(
    device="cpu",
    device_name="A CPU",
    threads=4,
    measured_at=0.0,
    samples=(
        Sample(TRIAD, "torch", "f32", 10**8, (0.1, 0.2)),
        Sample(PRODUCT, "torch", "bf16", 1000, (0.1,)),
    ),
    doubts=("others used 40% of the cores",),
)


def name(shape: str) -> str:
    return f"kernels-own-{shape}"


def signature(shape: str, targets: str = "int64", outputs: int = 1) -> Signature:
    """The signature of a kernel whose targets have this type."""
    count, columns = map(int, shape.split("x"))
    return Signature(
        model=name(shape),
        dtype="bf16",
        batch_size=1,
        inputs=(
            TensorType("[1]['x']", (count, columns), "bfloat16"),
            TensorType("[1]['targets']", (count,), targets),
        ),
        outputs=(TensorType("", (count,), "bfloat16"),) * outputs,
        parameters=(),
        aliases={},
        options={},
        torch_version="2.0",
        has_fp64=True,
        rmse_vs_fp64=1e-7,
        deterministic=True,
    )


@pytest.fixture
def tree(results, tmp_path):
    """A results tree of one kernel at three shapes, on the CPU."""
    folder = tmp_path / kernels.FOLDER
    folder.mkdir(parents=True)
    (folder / "own.py").write_text(KERNEL)
    models = {
        name(shape): Model(
            name(shape),
            "models/kernels/own.py",
            "kernels",
            {"shape": shape, "dtype": "bf16"},
            torchbench="own",
            family="kernels-own",
        )
        for shape in SHAPES
    }
    targets = {"llvm-cpu": results.matrix.targets["llvm-cpu"]}
    results.matrix = dataclasses.replace(results.matrix, models=models, targets=targets)
    return results


def write(tree, endings=None, limits=LIMITS, **of_signature) -> None:
    tree.write(endings)
    for shape in SHAPES:
        path = Path(stages.STAGES["reference"].path(name(shape), "signature.json"))
        if path.stat().st_size:
            signature(shape, **of_signature).write(path)
    if limits:
        path = Path(stages.STAGES["machine_limits"].path("cpu", "limits.json"))
        path.parent.mkdir(parents=True)
        limits.write(path)


def records(tree) -> list[dict]:
    return rows.records(tree.matrix, speedups.read_limits(tree.matrix.devices()))


def of(found: list[dict], shape: str, runtime: str = "eager") -> dict:
    [one] = [
        r["kernel"] | {"outcome": r["outcome"], "latency": r["latency"]}
        for r in found
        if r["kernel"]["shape"] == shape and r["experiment"]["runtime"] == runtime
    ]
    return one


def test_a_row_has_its_bytes_and_rates(tree):
    write(tree)
    found = of(records(tree), "100x200")
    moved = 100 * 200 * 2 + 100 * 8 + 100 * 2
    assert (found["name"], found["memory_bytes"], found["flop"]) == ("own", moved, 80_000)
    assert found["flop_per_byte"] == pytest.approx(80_000 / moved)
    assert found["gb_per_s"] == pytest.approx(moved / 10e-3 / 1e9)  # eager takes 10 ms
    assert found["gflop_per_s"] == pytest.approx(80_000 / 10e-3 / 1e9)
    assert found["machine_gb_per_s"] == pytest.approx(1.0)
    assert found["bandwidth_share"] == pytest.approx(found["gb_per_s"])
    assert (found["limited_by"], found["limit_share"]) == ("memory", found["bandwidth_share"])


def test_rates_have_the_interval_of_the_latency(tree):
    for row in ("eager/eval", "mlir/llvm-cpu"):
        tree.values_ms[f"{name('100x400')}/{row}"] = (9.0, 11.0)
    write(tree)
    found = of(records(tree), "100x200")
    for rate, ms in (("gb_per_s_low", "high_ms"), ("gb_per_s_high", "low_ms")):
        assert found[rate] == pytest.approx(found["memory_bytes"] / found["latency"][ms] / 1e6)
    few = of(records(tree), "100x400")
    assert (few["gb_per_s_low"], few["gb_per_s_high"]) == (None, None)


def test_a_runtime_that_fails_at_one_shape_keeps_its_other_shapes(tree):
    cell = f"{name('100x400')}/eager/eval"
    write(tree, {("baseline", cell): Outcome("crashed", "baseline", cell, "SIGSEGV", "what")})
    found = records(tree)
    assert of(found, "100x400")["outcome"]["reason"] == "SIGSEGV"
    assert of(found, "100x400")["gb_per_s"] is None
    for shape in ("100x200", "100x800"):
        assert of(found, shape)["gb_per_s"] > 0
    assert all(of(found, shape, "iree")["gb_per_s"] > 0 for shape in SHAPES)


def test_a_wrong_result_has_neither_latency_nor_rates(tree):
    cell = f"{name('100x200')}/eager/eval"
    write(tree, {("baseline", cell): Outcome("error", "baseline", cell, "wrong-result", "what")})
    found = of(records(tree), "100x200")
    assert found["latency"] is None
    assert found["gb_per_s"] is found["gflop_per_s"] is found["bandwidth_share"] is None


@pytest.mark.parametrize("limits", [None, dataclasses.replace(LIMITS, threads=2)])
def test_without_limits_of_this_machine_and_thread_count_there_are_no_shares(tree, limits):
    write(tree, limits=limits)
    found = of(records(tree), "100x200")
    assert found["gb_per_s"] > 0
    assert found["machine_gb_per_s"] is found["bandwidth_share"] is found["limit_share"] is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"targets": "int32"},
            "READS: targets: 800 bytes declared at 100x200, but the input has 400",
        ),
        (
            {"outputs": 2},
            "WRITES: [200] bytes declared at 100x200, but the results have [200, 200]",
        ),
    ],
)
def test_tensors_of_another_size_than_declared_are_an_error(tree, given, said):
    write(tree, **given)
    with pytest.raises(rows.WrongTraffic) as problem:
        records(tree)
    assert str(problem.value) == f"models/kernels/own.py: {said}"


def test_of_an_input_that_is_partly_read_less_may_be_declared(tree, tmp_path):
    text = KERNEL.replace('"x": "rows columns"', '"x": "rows"')
    (tmp_path / "models/kernels/own.py").write_text(text)
    write(tree)
    with pytest.raises(rows.WrongTraffic, match="READS: x: 200 bytes"):
        records(tree)
    (tmp_path / "models/kernels/own.py").write_text(KERNEL.replace('"targets": "rows: i64"', ""))
    with pytest.raises(rows.WrongTraffic, match="READS: targets: is not declared"):
        records(tree)
    (tmp_path / "models/kernels/own.py").write_text(text + 'PARTLY_READ = ("x",)\n')
    assert of(records(tree), "100x200")["memory_bytes"] == 200 + 800 + 200


def test_records_are_as_declared_and_every_column_is_declared(tree):
    write(tree)
    assert [*ROW_SET.checked(records(tree))]
    names = [one.column for one in COLUMNS]
    assert len(names) == len(set(names))
    assert {"memory_bytes", "gb_per_s", "flop_per_byte", "gflop_per_s", "bandwidth_share"} <= set(names)  # fmt: skip


def test_a_plot_has_the_device_the_bandwidth_and_a_line_for_each_runtime(tree, tmp_path):
    write(tree)
    found = records(tree)
    for folder in ("a", "b"):
        rows.write_plot("own", found, tmp_path / folder)
    svg = (tmp_path / "a/own.svg").read_text()
    for text in ("own: bf16, A CPU, 4 threads", "bandwidth of the machine: 1 GB/s", "eager", "mlir on llvm-cpu", *SHAPES):  # fmt: skip
        assert text in svg
    assert svg == (tmp_path / "b/own.svg").read_text()


def test_a_kernel_without_a_latency_has_a_plot_that_says_so(tree, tmp_path):
    failed = {}
    for shape in SHAPES:
        failed[("reference", name(shape))] = Outcome("error", "reference", name(shape), "x", "y")
    write(tree, failed)
    rows.write_plot("own", records(tree), tmp_path)
    assert "own: nothing was measured" in (tmp_path / "own.svg").read_text()


def test_page_and_screen_have_means_shares_and_the_reasons_of_failures(tree):
    cell = f"{name('100x400')}/eager/eval"
    write(tree, {("baseline", cell): Outcome("crashed", "baseline", cell, "SIGSEGV", "what")})
    text = rows.page(records(tree), [LIMITS])
    assert "| mlir on llvm-cpu | 3 of 3 | 2.00 (1.83 to 2.18), 2 rows |" in text
    assert "| 100x400 bf16 |" in text
    assert "SIGSEGV" in text
    assert "![GB/s of own](kernels/own.svg)" in text
    assert "A CPU, 4 threads: 1 GB/s from memory" in text
    assert "- others used 40% of the cores" in text
    console = Console(record=True, width=150)
    console.print(Printed(rows.on_screen(records(tree))))
    said = console.export_text()
    assert "mlir on llvm-cpu" in said
    assert "bandwidth" in said


def test_what_a_remedy_compiled_by_another_lowering_path_is_not_stated_for_this_one(tree):
    write(tree)
    found = records(tree)
    one = next(r for r in found if r["experiment"]["runtime"] == "iree")
    first = {"status": "error", "reason": "bufferization", "detail": "what", "log": "l"}
    one["remedy"] = {"name": "other-path", "frontend": "xla", "first": first, "tried": []}
    made = Kernels.of_records(found)
    [shares] = [shares for column, shares in made.shares.items() if column.target]
    assert len(shares) == 2
    text = rows.page(found, [LIMITS])
    assert "| mlir on llvm-cpu | 2 of 3 |" in text
    assert "| bufferization |" in text


def aggregate(tree, monkeypatch, capsys) -> str:
    """Run scripts.stages.aggregate_results; return what it said on an error."""
    whole = dataclasses.replace(tree.matrix, models={}, parts={"kernels": tree.matrix})
    atomic.write_json("results/logs/matrix.json", whole.to_json())
    monkeypatch.setattr(sys, "argv", ["x", "--set", "kernels"])
    try:
        aggregate_results.main()
    except SystemExit:
        return capsys.readouterr().err
    return ""


def test_the_command_writes_the_rows_the_page_and_the_plots(tree, monkeypatch, capsys):
    write(tree)
    assert aggregate(tree, monkeypatch, capsys) == ""
    with CSV.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == [one.column for one in COLUMNS]
    assert len(found) == len(JSONL.read_text().splitlines()) == 2 * len(SHAPES)
    assert json.loads(JSONL.read_text().splitlines()[0])["kernel"]["name"] == "own"
    assert Path("results/kernels/own.svg").is_file()
    assert Path("results/kernels.md").read_text().startswith("# Kernels\n")
    assert list(map(outputs.difference, outputs.files_of("kernels"))) == ["", "", ""]
    CSV.write_text("cut")
    assert "results/kernels.csv is damaged" in outputs.difference(CSV)
    assert not Path("results/logs/aggregate.json").exists()


def test_the_command_says_what_is_wrong(tree, monkeypatch, capsys):
    write(tree, targets="int32")
    assert "error: models/kernels/own.py: READS: targets" in aggregate(tree, monkeypatch, capsys)
    tree.matrix = dataclasses.replace(tree.matrix, models={})
    assert "selects no kernel" in aggregate(tree, monkeypatch, capsys)
