"""JSON as google/benchmark's JSON reporter writes: its tools/compare.py.

Each process that was timed is a repetition. Each repetition is an entry, and aggregates follow the repetitions of a benchmark. A cell that was
not measured is one entry with `error_occurred`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from scripts.results.results_file import BadRecords, Record
from scripts.tools.report.formats import Export, distinct

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
    families: dict[str, list[Record]] = {}
    for record in records:
        families.setdefault(record["model"], []).append(record)
    names = list(families)
    entries: list[dict] = []
    for record in records:
        family = families[record["model"]]
        common = {
            "family_index": names.index(record["model"]),
            "per_family_instance_index": family.index(record),
            "run_name": _name(record),
        }
        entries += _entries(record, common)
    devices = {record.data["run"].get("device_name") for record in export.records} - {None}
    context = {  # the library also gives host, CPU clock and caches
        "date": datetime.fromtimestamp(export.timestamp, UTC).isoformat(timespec="seconds"),
        "executable": "vmfbench",
        "json_schema_version": 1,
        "devices": ", ".join(sorted(devices)),
    }
    document = {"context": context, "benchmarks": entries}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _name(record: Record) -> str:
    """The name of the cell, with its precision if it has one.

    A cell's name does not depend on what else is in the file, because compare.py pairs by names.
    """
    parts = [record["model"], *record.parts]
    if record["precision"] != "none":
        parts.append(record["precision"])
    return "/".join(parts)


def _entries(record: Record, common: dict) -> Iterator[dict]:
    """Yield the repetitions and aggregates of a measured cell, or the single entry of a failed one, which is as the library
    writes a benchmark that was skipped with an error."""
    real = [ms * _US_OF_MS for ms in record.latency["values_ms"]] if record.latency else [0.0]

    def entry(own: dict, iterations: int, time: float, suffix: str = "") -> dict:
        return {
            "name": common["run_name"] + suffix,
            **common,
            "run_type": "aggregate" if suffix else "iteration",
            "repetitions": len(real),
            **own,
            "iterations": iterations,
            "real_time": time,
            "cpu_time": 0.0,
            "time_unit": TIME_UNIT,
        }

    if record.latency is None:
        failed = {"error_occurred": True, "error_message": record.failure}
        yield entry({"repetition_index": 0, "threads": 1} | failed, 0, 0.0)
        return
    calls = record.latency["calls"] // len(real)
    for index, time in enumerate(real):
        yield entry({"repetition_index": index, "threads": 1}, calls, time)
    for name, unit, statistic in _STATISTICS if len(real) > 1 else ():
        # `iterations` is the number of repetitions, as in the library's files.
        own = {"threads": 1, "aggregate_name": name, "aggregate_unit": unit}
        yield entry(own, len(real), statistic(real), f"_{name}")


_STATISTICS: tuple[tuple[str, str, Callable[[list[float]], float]], ...] = (
    ("mean", "time", statistics.fmean),
    ("median", "time", statistics.median),
    ("stddev", "time", statistics.stdev),
    ("cv", "percentage", lambda real: statistics.stdev(real) / statistics.fmean(real)),
)
