"""JSON as google/benchmark's JSON reporter writes: its tools/compare.py.

Each process that was timed is a repetition. Each repetition is an entry, and aggregates follow the repetitions of a benchmark. A cell that was
not measured is one entry with `error_occurred`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from datetime import UTC, datetime

from scripts.features.report.formats import Export, distinct
from scripts.records.results_file import BadRecords, Record

FILE = "google-benchmark.json"

TIME_UNIT = "us"
"""compare.py prints times without decimals; in milliseconds a small model would be 0."""

_US_OF_MS = 1e3


def add_options(group: argparse._ArgumentGroup) -> None:
    """What to do about the entries that have no time."""
    group.add_argument(
        "--measured-only",
        action="store_true",
        help="leave out cells that were not measured: their time reads as 0, and compare.py"
        " then prints no OVERALL_GEOMEAN",
    )


def render(export: Export, args: argparse.Namespace) -> str:
    """The file. Raises BadRecords for two records of one name, and if there is nothing to write."""
    records = export.records
    if args.measured_only:
        records = [record for record in records if record.latency is not None]
        if not records:
            raise BadRecords("nothing to export: no cell was measured; drop --measured-only")
    distinct(records, _name, "one benchmark to compare.py")
    if failed := [record for record in records if record.latency is None]:
        export.note(
            f"{len(failed)} cells were not measured and are entries with error_occurred;"
            " for an OVERALL_GEOMEAN from compare.py add --measured-only"
        )
    export.note("CPU times are not recorded; cpu_time is 0")
    models = list(dict.fromkeys(record["model"] for record in records))
    instances = dict.fromkeys(models, 0)
    entries: list[dict] = []
    for record in records:
        common = {
            "family_index": models.index(record["model"]),
            "per_family_instance_index": instances[record["model"]],
            "run_name": _name(record),
        }
        instances[record["model"]] += 1
        entries += _entries(record, common)
    document = {"context": _context(export), "benchmarks": entries}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _context(export: Export) -> dict:
    """What the records say about the run. (The library also gives host, CPU clock and caches.)"""
    devices = {record.data["run"].get("device_name") for record in export.records} - {None}
    return {
        "date": datetime.fromtimestamp(export.timestamp, UTC).isoformat(timespec="seconds"),
        "executable": "vmfbench",
        "json_schema_version": 1,
        "devices": ", ".join(sorted(devices)),
    }


def _name(record: Record) -> str:
    """The name of the cell, with its precision if it has one.

    A cell's name does not depend on what else is in the file, because compare.py pairs by names.
    """
    parts = [record["model"], *record.parts]
    if record["precision"] != "none":
        parts.append(record["precision"])
    return "/".join(parts)


def _entries(record: Record, common: dict) -> list[dict]:
    """The repetitions and aggregates of a measured cell, or the single entry of a failed one."""
    if record.latency is None:
        return [_failed(record, common)]
    real = [ms * _US_OF_MS for ms in record.latency["values_ms"]]
    entries = [
        {
            "name": common["run_name"],
            **common,
            "run_type": "iteration",
            "repetitions": len(real),
            "repetition_index": index,
            "threads": 1,
            "iterations": record.latency["calls"] // len(real),
            "real_time": real_us,
            "cpu_time": 0.0,
            "time_unit": TIME_UNIT,
        }
        for index, real_us in enumerate(real)
    ]
    if len(real) > 1:
        entries += [_aggregate(name, unit, of, real, common) for name, unit, of in _STATISTICS]
    return entries


def _aggregate(
    name: str,
    unit: str,
    of: Callable[[list[float]], float],
    real: list[float],
    common: dict,
) -> dict:
    """One statistic over the repetitions. `iterations` is their number, as in the library's files."""
    return {
        "name": f"{common['run_name']}_{name}",
        **common,
        "run_type": "aggregate",
        "repetitions": len(real),
        "threads": 1,
        "aggregate_name": name,
        "aggregate_unit": unit,
        "iterations": len(real),
        "real_time": of(real),
        "cpu_time": 0.0,
        "time_unit": TIME_UNIT,
    }


def _failed(record: Record, common: dict) -> dict:
    """As the library writes a benchmark that was skipped with an error."""
    return {
        "name": common["run_name"],
        **common,
        "run_type": "iteration",
        "repetitions": 1,
        "repetition_index": 0,
        "threads": 1,
        "error_occurred": True,
        "error_message": record.failure,
        "iterations": 0,
        "real_time": 0.0,
        "cpu_time": 0.0,
        "time_unit": TIME_UNIT,
    }


def _cv(values: list[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values)


_STATISTICS = (
    ("mean", "time", statistics.fmean),
    ("median", "time", statistics.median),
    ("stddev", "time", statistics.stdev),
    ("cv", "percentage", _cv),
)
