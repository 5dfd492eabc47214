"""Add a row that was measured on another machine to the results (the record.json of a bundle of vmfbench bundle --measure).

The record is copied to results/imported/. From then on, every run that writes results/latency.csv adds the row. Its target
has the name of the machine (`resnet/torchmlir-torch/llvm-cpu@laptop`), and so has its column `imported`. To remove
the row, delete the file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.core import atomic, checkout, exits
from scripts.results import imported
from scripts.results.results_file import cell_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path, nargs="+", metavar="record.json")
    parser.add_argument("--results", type=Path, default=Path("results"), help="default: results")
    args = parser.parse_args()
    for path in args.records:
        try:
            data = imported.load(path)
            row = imported.row(data, str(path))
            kept = imported.place(args.results, imported.read(data))
            kept.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_json(kept, data)
        except (OSError, ValueError) as error:
            exits.fail(f"{path}: {error}")
        ended = row["outcome"]
        said = f"{row['latency']['ms']:.4g} ms" if row["latency"] else ended["reason"]
        print(f"{kept}: {cell_of(row)}: {ended['status']} ({said})")
    print(f"{checkout.run_command('results/latency.csv')} adds what is new")
