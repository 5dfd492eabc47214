"""Draw the results as files: results/plots/speedups, latency, scatter and threads, each as SVG and PNG."""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.core import commands, exits
from scripts.features import registry
from scripts.features.report import plots
from scripts.records import results_file
from scripts.records.results_file import BadRecords
from scripts.records.results_table import Table


def main() -> None:
    registry.load()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.plot_results", description=__doc__
    )
    parser.add_argument("--results", type=Path, default=Path("results/results.jsonl"))
    parser.add_argument("--out", required=True, type=Path, help="folder of the plots")
    args = parser.parse_args()
    try:
        table = Table.of(record.data for record in results_file.read(args.results))
        plots.write(table, args.out)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))


if __name__ == "__main__":
    commands.run(main)
