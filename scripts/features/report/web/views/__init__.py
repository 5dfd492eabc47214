"""The views of the page, in the order of their tabs.

To add one: write a function that selects its data, a JavaScript file in this folder that draws it, and an entry here.
"""

from __future__ import annotations

from scripts.features.report.web.page_source import View
from scripts.features.report.web.views import of_files, of_rows

_AGAIN = "then make this page again: "

VIEWS = (
    View("overview", "Overview", of_rows.overview),
    View("latency", "Latency", of_rows.latency),
    View("threads", "Threads", of_rows.threads, f"All rows were measured on one number of threads. Measure on several, {_AGAIN}snakemake --cores 8 results/report.html --config measure='{{threads: [1, 2, 4]}}'"),
    View("failures", "Failures", of_rows.failures),
    View("why", "Why slow", of_files.why, f"There are no profiles. Make them, {_AGAIN}snakemake --cores 8 profile --config models=vit"),
    View("memory", "Memory", of_rows.memory),
    View("history", "History", of_files.history, f"results/history/ has fewer than two runs. Every run that changes a row adds one; {_AGAIN}snakemake --cores 8 results/report.html"),
    View("comparison", "Comparison", of_files.comparison, f"Nothing was compared. Compare with an earlier run, {_AGAIN}vmfbench compare BEFORE/results results --save results/comparison.json"),
    View("training", "Training", of_rows.training, f"No training steps were measured. Measure them, {_AGAIN}snakemake --cores 8 results/latency.csv --config tests=eval,train"),
    View("operators", "Operators", of_files.operators, f"No operators were run. Run them, {_AGAIN}snakemake --cores 8 results/operators.csv"),
    View("kernels", "Kernels", of_files.kernels, f"No kernels were measured. Measure them, {_AGAIN}snakemake --cores 8 results/kernels.csv"),
)  # fmt: skip
