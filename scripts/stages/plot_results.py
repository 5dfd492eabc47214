"""Draw the results as files: results/plots/speedups, latency, scatter and threads, each as SVG and PNG."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.core import commands, exits, options
from scripts.core.options import option
from scripts.features import registry
from scripts.features.report import plots
from scripts.records import results_file
from scripts.records.results_file import BadRecords
from scripts.records.results_table import Table


@dataclass(frozen=True, kw_only=True)
class Options:
    results: Path = Path("results/results.jsonl")
    out: Path = option(help="folder of the plots")


def main() -> None:
    registry.load()
    args = options.parse(Options)
    try:
        table = Table.of(record.data for record in results_file.read(args.results))
        plots.write(table, args.out)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))


if __name__ == "__main__":
    commands.run(main)
