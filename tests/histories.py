"""Histories of synthetic runs, for the tests of series, changes and the view of results/report.html."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.results.results_file import cell_of
from scripts.tools.compare import store
from tests import report_records

CELL = "bert/torchmlir-torch/llvm-cpu"
DAY = 86_400.0
FIRST = 1_790_000_000.0
"""Seconds since the epoch of the first run."""


def records(number: int, factors: Mapping[str, float] | None = None, iree: str = "3.12.0") -> list[dict[str, Any]]:  # fmt: skip
    """Return the records of run `number`, one run per day: latencies times the factor of their cell."""
    found = copy.deepcopy(report_records.records())
    for one in found:
        if one["experiment"]["runtime"] == "iree":
            one["versions"]["iree"] = iree
        if not one["latency"]:
            continue
        # The machine has another speed each time, and ratios of rows differ a little.
        machine = 1 + 0.2 * (number % 3)
        factor = (factors or {}).get(str(cell_of(one)), 1.0) * machine * (1 + 0.002 * (number % 3))
        of = one["latency"]
        if of["values_ms"] == of["anchor_ms"]:
            factor = machine
        of["values_ms"] = [factor * value for value in of["values_ms"]]
        of["anchor_ms"] = [machine * value for value in of["anchor_ms"]]
        of["ms"] *= factor
        of["started"] = FIRST + number * DAY
    return found


def keep(results: Path, found: list[dict[str, Any]]) -> None:
    """Add records to the history of a results folder, as the aggregation does."""
    results.mkdir(parents=True, exist_ok=True)
    path = results / "results.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in found), encoding="utf-8")
    store.keep(path, "latency")


def with_a_change(results: Path, runs: int = 8, at: int = 4, factor: float = 1.5) -> list[dict[str, Any]]:  # fmt: skip
    """Write runs, of which those from `at` on have a newer IREE and a slower CELL; return the records of the last one."""
    found: list[dict[str, Any]] = []
    for number in range(runs):
        new = number >= at
        found = records(number, {CELL: factor} if new else None, "3.13.0" if new else "3.12.0")
        keep(results, found)
    return found
