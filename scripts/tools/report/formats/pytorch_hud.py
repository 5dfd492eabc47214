"""JSON of PyTorch's benchmark database, schema v3: the uploader of pytorch/test-infra, whose results hud.pytorch.org shows.

Each value of a row is a record. What is known of the workflow, the commit and the machine is added by the uploader.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from scripts.results.columns import lookup
from scripts.results.results_file import Record
from scripts.supervise import outcome
from scripts.tools.report.formats import Export, as_text, distinct

FILE = "pytorch-hud.json"
_MODES = {"eval": "inference", "train": "training"}
METRICS = {
    "latency_ms": "latency.ms",
    "compile_s": "compile.compile_s",
    "compile_rss_mb": "compile.max_rss_mb",
    "run_rss_mb": "run.max_rss_mb",
    "vmfb_bytes": "compile.vmfb_bytes",
    "dispatch_count": "compile.dispatch_count",
    "transient_bytes": "compile.transient_bytes",
    "constant_bytes": "compile.constant_bytes",
}
"""Columns of which less is better, with their places in a record."""


def add_options(group: argparse._ArgumentGroup) -> None:
    """What the database shows the rows as."""
    name = "name of the benchmark in the database (default: vmfbench)"
    group.add_argument("--benchmark", default="vmfbench", metavar="NAME", help=name)


def render(export: Export, args: argparse.Namespace) -> str:
    """A list with a record per metric of each row. Values of `extra_info` are texts, as in the database."""
    distinct(export.records, lambda record: (record["cell"], record["dtype"]), "one series")
    entries = [entry for record in export.records for entry in _entries(record, args.benchmark)]
    export.note("a row that failed has only the metric `ok`, with the value 0")
    return json.dumps(entries, indent=1, allow_nan=False) + "\n"


def _entries(record: Record, benchmark: str) -> list[dict[str, Any]]:
    ended, options = record.data["outcome"], record.data["model"].get("options") or {}
    versions = record.data["versions"]
    is_ok = ended["status"] == outcome.OK
    about = ("cell", "target", "device", "batch_size", "toolchain")
    common = {
        "benchmark": {
            "name": benchmark,
            "mode": _MODES[record["test"]],
            "dtype": record["dtype"],
            "extra_info": {key: as_text(record[key]) for key in about}
            | {key: as_text(ended.get(key)) for key in ("status", "reason")}
            | {"device_name": as_text(record.data["run"].get("device_name"))},
        },
        "model": {
            "name": record["model"],
            "type": "OSS model",
            "backend": "/".join(record.parts),
            "origins": [record["suite"]],
            "extra_info": {key: as_text(value) for key, value in options.items()},
        },
        "dependencies": {
            name: {
                "repo": "",
                "branch": "",
                "sha": "",
                "version": version,
                "extra_info": {"build": as_text(versions.get(f"{name}_build"))},
            }
            for name, version in versions.items()
            if version and not name.endswith("_build")
        },
    }
    looked_up = {name: lookup(record.data, path) for name, path in METRICS.items()}
    values = {name: [value] for name, value in looked_up.items() if value is not None}
    if record.latency:
        values["latency_ms"] = record.latency["values_ms"]
    return [
        common | {"metric": {"name": name, "benchmark_values": numbers, "extra_info": {}}}
        for name, numbers in {"ok": [float(is_ok)], **(values if is_ok else {})}.items()
    ]
