"""google-benchmark JSON, as iree-benchmark-module writes it."""

from __future__ import annotations

from pathlib import Path

from scripts.core import atomic

_TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


class BenchmarkError(Exception):
    """The benchmark reported an error or no measurement."""


def read_ms(path: str | Path) -> list[float]:
    """The milliseconds per call of all repetitions of the benchmark in a file, in the order in which they ran.

    Aggregates are recognized by `run_type` and left out, because their position in the list differs
    between versions. Raises BenchmarkError for `error_occurred`, if there is no repetition, and for
    repetitions of more than one benchmark.
    """
    rows = [row for row in atomic.read_json(path)["benchmarks"] if row["run_type"] == "iteration"]
    for row in rows:
        if row.get("error_occurred"):
            raise BenchmarkError(f"{row['name']}: {row.get('error_message', 'error')}")
    names = {row["run_name"] for row in rows}
    if len(names) != 1:
        raise BenchmarkError(
            f"{path}: expected repetitions of one benchmark, found {sorted(names) or 'none'}"
        )
    rows.sort(key=lambda row: row["repetition_index"])
    return [row["real_time"] * _TO_MS[row["time_unit"]] for row in rows]
