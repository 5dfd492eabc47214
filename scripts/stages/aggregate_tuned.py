"""Aggregate tuned models: results/tuned.csv, tuned.md, tuned.jsonl, and the results that `tuned: auto` uses."""

from __future__ import annotations

from scripts.core import commands
from scripts.features import registry
from scripts.features.variants.tuned_row_set import ROW_SET
from scripts.records import row_set


def main() -> None:
    registry.load()
    row_set.aggregate(ROW_SET, "aggregate_tuned", __doc__)


if __name__ == "__main__":
    commands.run(main)
