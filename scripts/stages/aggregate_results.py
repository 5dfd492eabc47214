"""Aggregate the results of all cells: results/latency.csv, latency.md and results.jsonl."""

from __future__ import annotations

from scripts.core import commands
from scripts.features import registry
from scripts.records import row_set
from scripts.records.latency_page import ROW_SET


def main() -> None:
    registry.load()
    row_set.aggregate(ROW_SET, "aggregate_results", __doc__)


if __name__ == "__main__":
    commands.run(main)
