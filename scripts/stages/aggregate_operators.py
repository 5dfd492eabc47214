"""Aggregate the results of all operator problems: results/operators.csv, operators.md and operators/operators.jsonl."""

from __future__ import annotations

from scripts.core import commands
from scripts.features import registry
from scripts.features.operators.report.row_set import ROW_SET
from scripts.records import row_set


def main() -> None:
    registry.load()
    row_set.aggregate(ROW_SET, "aggregate_operators", __doc__)


if __name__ == "__main__":
    commands.run(main)
