"""Aggregate the results of all kernels: results/kernels.csv, kernels.md, kernels.jsonl and the plots."""

from __future__ import annotations

from scripts.core import commands
from scripts.features import registry
from scripts.features.kernels.row_set import ROW_SET
from scripts.records import row_set


def main() -> None:
    registry.load()
    row_set.aggregate(ROW_SET, "aggregate_kernels", __doc__)


if __name__ == "__main__":
    commands.run(main)
