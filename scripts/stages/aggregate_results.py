"""Aggregate the results of all cells: results/latency.csv, latency.md and results.jsonl; with --set, those of a feature."""

from __future__ import annotations

from scripts.core import commands
from scripts.results import row_set
from scripts.tools import registry
from scripts.tools.compare import store


def main() -> None:
    registry.load()
    if written := row_set.aggregate(__doc__):
        store.keep(*written)


if __name__ == "__main__":
    commands.run(main)
