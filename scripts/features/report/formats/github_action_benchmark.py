"""JSON of `customSmallerIsBetter` of benchmark-action/github-action-benchmark, which draws charts of a branch's commits."""

from __future__ import annotations

import argparse
import json

from scripts.features.report.formats import Export, distinct, metrics
from scripts.records.columns import COLUMNS
from scripts.records.results_file import BadRecords

FILE = "github-action-benchmark.json"
_UNITS = {column.column: column.unit for column in COLUMNS}


def add_options(group: argparse._ArgumentGroup) -> None:
    """There are none."""


def render(export: Export, args: argparse.Namespace) -> str:
    """A list with an entry per metric of each row that has a latency. Raises BadRecords if no row has one."""
    distinct(export.records, lambda record: record["cell"], "one benchmark of a chart")
    entries = []
    for record in export.records:
        if record.latency is None:
            continue
        for name, value in metrics(record).items():
            entry = {"name": f"{record['cell']} {name}", "unit": _UNITS[name], "value": value}
            low, high = (record.latency.get(key) for key in ("low_ms", "high_ms"))
            if name == "latency_ms" and low and high:
                entry["extra"] = f"99 % interval {low:.4g} to {high:.4g} ms"
            entries.append(entry)
    if not entries:
        raise BadRecords("nothing to export: no cell was measured")
    if left_out := sum(record.latency is None for record in export.records):
        export.note(f"{left_out} cells that were not measured are left out")
    export.note(
        "its alerts compare milliseconds of different machines and times; `vmfbench compare` does not"
    )
    return json.dumps(entries, indent=1, allow_nan=False) + "\n"
