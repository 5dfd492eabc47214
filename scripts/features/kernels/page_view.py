"""The view of the report page that shows kernels."""

from __future__ import annotations

from typing import Any

from scripts.core import checkout
from scripts.features.report.web.page_source import AGAIN, Source, View
from scripts.records import row_set, wording
from scripts.records.row import Row
from scripts.run import outputs

_OF_KERNEL = (
    *("name", "shape", "gb_per_s", "gb_per_s_low", "gb_per_s_high", "gflop_per_s"),
    *("bandwidth_share", "limit_share", "limited_by", "machine_gb_per_s"),
)


def kernels(source: Source) -> dict[str, Any] | None:
    """Return a row per kernel, shape and runtime, with GB/s and the bandwidth of the machine."""
    path = source.root / outputs.files_of("kernels")[2]
    if not path.is_file():
        return None
    rows = list(map(_kernel, row_set.Stored(path)))
    return {"rows": rows} if rows else None


def _kernel(record: dict[str, Any]) -> dict[str, Any]:
    row, run = Row.of_record(record), record["run"]
    known = _OF_KERNEL if row.timing else ("name", "shape")
    return {
        **{key: record["kernel"].get(key) if key in known else None for key in _OF_KERNEL},
        "dtype": record["experiment"]["dtype"],
        "device": run["device_name"],
        "threads": run["threads"],
        "path": wording.path(row.column),
        "ending": row.ending,
        "reason": row.ended.reason,
        "latency_ms": row.timing.ms if row.timing else None,
        "speedup_vs_eager": row.timing.latency["speedup_vs_eager"] if row.timing else None,
    }


VIEWS = (
    View("kernels", "Kernels", kernels, f"No kernels were measured. Measure them, {AGAIN}{checkout.run_command('results/kernels.csv')}"),
)  # fmt: skip
