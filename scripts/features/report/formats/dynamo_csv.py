"""CSV files as PyTorch's dynamo benchmarks write: runner.py, check_accuracy.py, check_perf_csv.py.

Two files, performance and accuracy, for each compiler, suite, dtype, mode and device, with the
names that runner.py looks for. Each row is a model.
"""

from __future__ import annotations

import argparse
import csv
import io

from scripts.core import commands
from scripts.features.report.formats import Export, distinct, named
from scripts.records.results_file import BadRecords, Record
from scripts.records.speedups import comparable, runtime_of

PERFORMANCE = (
    "dev", "name", "batch_size", "speedup", "abs_latency", "compilation_latency",
    "compression_ratio", "eager_peak_mem", "dynamo_peak_mem",
)  # fmt: skip
ACCURACY = ("dev", "name", "batch_size", "accuracy")

_MODES = {"eval": "inference", "train": "training"}
_DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "fp16": "float16"}
_GB_OF_MIB = 2**20 / 1e9

# What verified, in the readers' words.
_OF_CODE = {
    "PASS": "pass",
    "FAIL": "fail_accuracy",
    "NONDETERMINISTIC_EAGER_RUN": "eager_two_runs_differ",
}


def add_options(group: argparse._ArgumentGroup) -> None:
    """None so far."""


def render(export: Export, args: argparse.Namespace) -> dict[str, str]:
    """Texts by file name.

    Raises BadRecords if two records would be the same model of one file, and if there is nothing
    to write.
    """
    records = _on_devices_here(export)
    distinct(records, lambda record: (_stem(record), record["model"]), "one row of one file")
    eager_gb = {
        comparable(record.data): _peak_gb(record)
        for record in export.everything
        if runtime_of(record.data) == "eager" and record.latency is not None
    }
    lone = [r for r in records if r.latency and not r.latency.get("speedup_vs_eager")]
    if lone:
        export.note(
            f"no eager measurement to compare with, so speedup is 0, which readers take for a"
            f" failure: {named(lone)}"
        )
    files: dict[str, list[Record]] = {}
    for record in records:
        files.setdefault(_stem(record), []).append(record)
    rendered = {}
    for stem, rows in files.items():
        performance = [
            _performance(record, eager_gb.get(comparable(record.data))) for record in rows
        ]
        rendered[f"{stem}_performance.csv"] = _csv(PERFORMANCE, performance)
        accuracy = [(*_first(record), _accuracy(record)) for record in rows]
        rendered[f"{stem}_accuracy.csv"] = _csv(ACCURACY, accuracy)
    return rendered


def _on_devices_here(export: Export) -> list[Record]:
    """The records, without those of compilers whose device does not exist on the measuring machine.

    A compiler has all of its rows or none: runner.py pairs the rows of several files by position.
    """
    measured = {_stem(record) for record in export.records if record.latency is not None}
    absent = {
        _stem(record)
        for record in export.records
        if record.data["outcome"]["status"] == "unavailable"
    } - measured
    left_out = [record for record in export.records if _stem(record) in absent]
    if left_out:
        export.note(f"left out {len(left_out)} cells of absent devices: {named(left_out)}")
    if len(left_out) == len(export.records):
        raise BadRecords("nothing to export: every cell's device is absent here")
    return [record for record in export.records if _stem(record) not in absent]


def _stem(record: Record) -> str:
    """The name of a file without its kind: compiler (of IREE with the lowering path), suite, dtype, mode and device."""
    runtime, device, precision = record["runtime"], record["device"], record["precision"]
    usual = (None, runtime, f"{runtime}-{device}")
    compiler = runtime if record["target"] in usual else record["target"]
    if record.is_iree:
        compiler = "-".join(["iree", *record.parts])
    own = record["dtype"] if precision == "none" else precision
    dtype = "amp" if precision.startswith("amp") else _DTYPES.get(own, precision)
    return "_".join((compiler, record["suite"], dtype, _MODES[record["test"]], device))


def _first(record: Record) -> tuple:
    return record["device"], record["model"], record["batch_size"]


def _performance(record: Record, eager_gb: float | None) -> tuple:
    """Milliseconds, seconds and GB. 0 means "failed" or "not known" in these files."""
    if record.latency is None:
        return (*_first(record), *[0.0] * 6)
    own_gb = _peak_gb(record)
    ratio = eager_gb / own_gb if eager_gb and own_gb else 0.0
    if record.is_iree:
        compilation_s = float((record.data.get("compile") or {}).get("compile_s") or 0.0)
    else:  # seconds of the first call minus those of a warm one
        compilation_s = max(0.0, record.runs[0].total_s - record.latency["ms"] / 1e3)
    speedup = record.latency.get("speedup_vs_eager") or 0.0
    first = (*_first(record), speedup, record.latency["ms"], compilation_s)
    return (*first, ratio, eager_gb or 0.0, own_gb)


def _peak_gb(record: Record) -> float:
    """Peak memory in GB: the resident set on the CPU, tensors on other devices; 0 if unknown."""
    field = "max_rss_mb" if record["device"] == "cpu" else "device_memory_mb"
    return (record.data["run"].get(field) or 0.0) * _GB_OF_MIB


def _accuracy(record: Record) -> str:
    """How the cell ended, in the readers' vocabulary."""
    code, status = record.data["verification"]["code"], record.data["outcome"]["status"]
    if code == "EAGER_FAILED":
        return {"oom": "eager_1st_run_OOM", "timeout": "timeout"}.get(status, "eager_1st_run_fail")
    if code == "VERIFIER_SKIPPED":
        return "pass_due_to_skip"
    return _OF_CODE.get(code) or {"oom": "OOM", "timeout": "timeout"}.get(status, "fail_to_run")


def _csv(columns: tuple[str, ...], rows: list[tuple]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(
        [f"{v:.6f}" if isinstance(v, float) else commands.csv_cell(v) for v in row] for row in rows
    )
    return out.getvalue()
