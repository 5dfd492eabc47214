"""The tests and the scores that BackendBench's main.py writes for a backend, one folder per lowering path.

Each operator problem is a correctness test and a performance test. The records are those of
results/operators/operators.jsonl.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.results import results_file
from scripts.results.results_file import BadRecords, Record
from scripts.tools.operators.problems import scores
from scripts.tools.operators.problems.scores import Result, Scores
from scripts.tools.operators.report.analysis import column
from scripts.tools.operators.report.columns import COMMAND, FORM, JSONL
from scripts.tools.report.formats import Export

RESULTS = JSONL


def read(path: Path) -> list[Record]:
    """The records of operator problems in a file. Raises BadRecords."""
    return results_file.read(path, FORM)


Test = dict[str, Any]


def add_options(group: argparse._ArgumentGroup) -> None:
    """The threshold of perf@p, as `--p` of main.py."""
    group.add_argument("--p", type=float, default=1.0, help="threshold of perf@p (default: 1)")


def render(export: Export, args: argparse.Namespace) -> dict[str, str]:
    """The files of each lowering path and baseline that ran, and of the best path of each target.

    Raises BadRecords if nothing ran.
    """
    columns: dict[str, list[Record]] = {}
    for record in export.records:
        dataset = record.data["dataset"]
        if dataset is None or dataset["included_in_benchmark"]:
            columns.setdefault(column(record.data).label, []).append(record)
    ran = {name: rows for name, rows in columns.items() if any(map(_has_run, rows))}
    if left := [name for name in columns if name not in ran]:
        export.note(f"left out, nothing was run: {', '.join(left)}")
    if not ran:
        raise BadRecords("nothing to export: no problem that BackendBench includes was run")
    eager_ms = {
        record.data["problem"]["name"]: record.data["latency"]["ms"]
        for record in export.everything
        if record["runtime"] == "eager" and record.data["latency"]
    }
    files: dict[str, str] = {}
    for name, rows in (ran | _best(ran)).items():
        folder = name.replace("/", "-")
        written = _files(name, rows, eager_ms, args.p)
        files |= {f"{folder}/{file}": text for file, text in written.items()}
    return files


def _has_run(record: Record) -> bool:
    return record.data["verification"]["backendbench_correct"] is not None


def _best(columns: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """The fastest correct record of each problem, by target: of targets with several paths."""
    by_target: dict[str, list[list[Record]]] = {}
    for name, records in columns.items():
        if "/" in name:
            by_target.setdefault(name.partition("/")[2], []).append(records)

    def goodness(record: Record) -> tuple[bool, float]:
        return _is_correct(record), _speedup(record) or 0.0

    return {
        f"best/{target}": [max(rows, key=goodness) for rows in zip(*paths, strict=True)]
        for target, paths in by_target.items()
        if len(paths) > 1
    }


def _is_correct(record: Record) -> bool:
    return bool(record.data["verification"]["backendbench_correct"])


def _speedup(record: Record) -> float | None:
    latency = record.data["latency"]
    return latency["speedup_vs_eager"] if latency and _is_correct(record) else None


def _files(
    name: str, records: Sequence[Record], eager_ms: Mapping[str, float], p: float
) -> dict[str, str]:
    """The two files, by name."""
    performance = [_performance(r, eager_ms.get(r.data["problem"]["name"])) for r in records]
    tests = [*map(_correctness, records), *performance]
    tests.sort(key=lambda test: (test["op_name"], test["args"]))
    results = [Result(r.data["problem"]["op"], _is_correct(r), _speedup(r)) for r in records]
    return {
        "full_results.json": json.dumps(tests, indent=2, allow_nan=False) + "\n",
        "OVERALL_SUMMARY.md": _overall(name, scores.of_results(results, p), performance),
    }


def _named(record: Record) -> Test:
    """The names of a test. BackendBench's names of operators have no namespace: `add.Tensor`."""
    problem = record.data["problem"]
    return {"op_name": problem["op"].partition(".")[2], "args": problem["args"]}


def _error(record: Record) -> str:
    ended = record.data["outcome"]
    return "" if _has_run(record) else f"{ended['stage']}: {ended['status']}: {ended['detail']}"


def _correctness(record: Record) -> Test:
    """A CorrectnessTestResult of its eval.py; an error that is not known is null."""
    compared, ended = record.data["verification"], record.data["outcome"]
    return _named(record) | {
        "is_correct": _is_correct(record),
        "error_msg": _error(record),
        "error_type": "" if _has_run(record) else ended["reason"],
        "traceback": "",
        "max_abs_error": compared.get("max_abs_error"),
        "max_rel_error": compared.get("max_rel_error"),
        "test_type": "correctness",
    }


def _performance(record: Record, eager_ms: float | None) -> Test:
    """A PerformanceTestResult of its eval.py."""
    speedup, latency = _speedup(record), record.data["latency"]
    return _named(record) | {
        "speedup": speedup,
        "benchmark_time_ms": latency["ms"] if speedup else None,
        "reference_time_ms": eager_ms,
        "error_msg": "" if speedup else _error(record) or _untimed(record),
        "successfully_ran": speedup is not None,
        "test_type": "performance",
    }


def _untimed(record: Record) -> str:
    compared = record.data["verification"]
    if not _is_correct(record):
        errors = compared.get("max_abs_error"), compared.get("max_rel_error")
        return "Reference and result tensors are not close: max absolute error {}, max relative error {}".format(*errors)  # fmt: skip
    return "not timed: " + (compared.get("detail") or "there is no latency of eager to compare with")  # fmt: skip


def _overall(name: str, scores: Scores, performance: Sequence[Test]) -> str:
    """OVERALL_SUMMARY.md. Its correctness is that of main.py: the share of fully correct operators."""
    speedups: dict[str, list[float]] = {}
    for test in performance:
        speedups.setdefault(test["op_name"], []).append(test["speedup"] or 1.0)
    rows = [
        (op := operator.op.partition(".")[2], operator.correctness, statistics.fmean(speedups[op]))
        for operator in scores.operators
    ]
    rows.sort(key=lambda row: -row[2])
    return "\n".join(
        [
            "# BackendBench Run Summary\n",
            "## Command",
            f"```bash\n{COMMAND}  # {name}\n```\n",
            "## Results\n",
            "| Metric | Value |",
            "|--------|-------|",
            f"| Correctness Score | {scores.fully_correct:.2f} |",
            f"| Performance Score (geomean speedup) | {scores.performance:.2f} |",
            f"| Perf@{scores.p} Score | {scores.perf_at_p:.2f} |\n",
            "### Metric Descriptions\n",
            "- **Correctness Score**: share of the operators all of whose tests are correct",
            "- **Performance Score**: Geometric mean speedup over all operators",
            f"- **Perf@{scores.p} Score**: Rate of correct samples with a speedup greater than {scores.p}\n",
            "### Operator Speedups vs Eager in Descending Order\n",
            "| Operator | Correctness Ratio | Speedup vs Eager |",
            "|----------|-----------|----------------|",
            *(f"| {op} | {correctness:.4f} | {speedup:.4f}x|" for op, correctness, speedup in rows),
            "",
        ]
    )
