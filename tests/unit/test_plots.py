"""results/plots/: the plots of the results table as SVG and PNG."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts.features.report import plots
from scripts.records.results_table import Table
from scripts.records.row import Column
from tests import report_records
from tests.rows import real, record

ROOT = Path(__file__).parents[2]
NAMES = ("latency", "scatter", "speedups", "threads")


def test_each_plot_is_written_in_both_formats_names_what_it_shows_and_is_always_the_same(tmp_path):
    again = tmp_path / "again"
    plots.write(real(), tmp_path)
    plots.write(real(), again)
    assert sorted(file.name for file in again.iterdir()) == sorted(
        f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")
    )
    texts = {name: (tmp_path / f"{name}.svg").read_text() for name in NAMES}
    assert "no row was measured on several numbers of threads" in texts.pop("threads")
    assert all("torchmlir-torch on llvm-cpu" in text for text in texts.values())
    assert all(model in texts["latency"] for model in ("bert", "conv", "llama-decode", "resnet"))
    assert "inductor, ms per call" in texts["scatter"]
    assert "geometric mean" in texts["speedups"]
    for file in again.iterdir():
        assert file.read_bytes() == (tmp_path / file.name).read_bytes()


def test_rows_of_which_nothing_ran_give_plots_that_say_so(tmp_path):
    plots.write(Table.of([record(Column("torch", "cpu"))]), tmp_path)
    assert "nothing was measured" in (tmp_path / "latency.svg").read_text()


def test_a_model_that_was_measured_on_several_numbers_of_threads_has_a_panel(tmp_path):
    plots.write(Table.of(report_records.by_threads(1, 2, 4)), tmp_path)
    text = (tmp_path / "threads.svg").read_text()
    assert all(name in text for name in ("scaled", "efficiency", "eager", "torchmlir-torch on llvm-cpu"))  # fmt: skip
    assert "-threads" not in text  # in no name of a path


def test_the_command_writes_them(tmp_path):
    source = report_records.write(tmp_path, report_records.records())
    command = [sys.executable, "-m", "scripts.stages.plot_results", "--results", str(source.results / "results.jsonl")]  # fmt: skip
    subprocess.run([*command, "--out", str(tmp_path / "plots")], cwd=ROOT, check=True)
    assert (tmp_path / "plots/latency.png").read_bytes().startswith(b"\x89PNG")
