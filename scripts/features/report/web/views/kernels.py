"""Kernels: GB/s by shape and runtime, with the bandwidth of the machine."""

from __future__ import annotations

import json
from typing import Any

from scripts.features.report.web.rows import ending
from scripts.features.report.web.source import Source, View
from scripts.records import remedied, wording
from scripts.records.results_table import column_of
from scripts.run import outputs

_OF_KERNEL = (
    *("name", "shape", "gb_per_s", "gb_per_s_low", "gb_per_s_high", "gflop_per_s"),
    *("bandwidth_share", "limit_share", "limited_by", "machine_gb_per_s"),
)


def select(source: Source) -> dict[str, Any] | None:
    """Return a row per kernel, shape and runtime; None if no kernel was measured."""
    path = source.root / outputs.files_of("kernels")[2]
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="\n") as lines:
        found = [_row(json.loads(line)) for line in lines]
    return {"rows": found} if found else None


def _row(record: dict[str, Any]) -> dict[str, Any]:
    latency, run = record["latency"], record["run"]
    if remedied.by_other_path(record):
        latency = None
    return {
        **{key: record["kernel"].get(key) if latency or key in ("name", "shape") else None for key in _OF_KERNEL},
        "dtype": record["experiment"]["dtype"],
        "device": run["device_name"],
        "threads": run["threads"],
        "path": wording.path(column_of(record)),
        "ending": ending(record),
        "reason": remedied.of_path(record)["reason"],
        "latency_ms": latency["ms"] if latency else None,
        "speedup_vs_eager": latency["speedup_vs_eager"] if latency else None,
    }  # fmt: skip


VIEW = View(
    "kernels",
    "Kernels",
    select,
    "No kernels were measured. Measure them, then make this page again: "
    "snakemake --cores 8 results/kernels.csv",
)
