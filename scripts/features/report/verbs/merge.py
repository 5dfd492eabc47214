"""Merge the rows of several results folders, such as the batches of a large matrix, into one set of rows.

Writes latency.csv, latency.md and results.jsonl. A cell that several files have with the same measurement is one row. If they differ,
the command names the cell and ends, unless --prefer says which one to take.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.core import atomic, exits
from scripts.features.report import merging
from scripts.features.report.merging import Conflict
from scripts.records import fields, latency_page, results_file, writing
from scripts.records.columns import COLUMNS, FIELDS
from scripts.records.results_file import BadRecords, cell_of
from scripts.records.results_table import Table

NAMED = 20
"""Conflicts that are printed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, help="results.jsonl of each folder")
    parser.add_argument("-o", "--out", required=True, type=Path, help="folder of the merged rows")
    parser.add_argument(
        "--prefer",
        choices=merging.CHOICES,
        help="which row of a cell to take: of the first file, of the last one, or measured last",
    )
    args = parser.parse_args()
    out = args.out / "results.jsonl"
    if out.resolve() in {path.resolve() for path in args.results}:
        exits.fail(f"{out} is one of the files to merge; give another folder with -o")
    try:
        read = {path: [one.data for one in results_file.read(path)] for path in args.results}
        merged = merging.merge(read, args.prefer)
    except BadRecords as error:
        exits.fail(str(error))
    for line in map(described, merged.conflicts[:NAMED]):
        print(line)
    if len(merged.conflicts) > NAMED:
        print(f"… and {len(merged.conflicts) - NAMED} more")
    if merged.conflicts and args.prefer is None:
        exits.fail(
            f"{len(merged.conflicts)} cells have different rows; nothing was written. "
            f"--prefer {'|'.join(merging.CHOICES)} says which ones to take"
        )
    write(merged.records, args.out)
    print(f"{args.out}: {len(merged.records)} rows of {len(args.results)} files")


def described(of: Conflict) -> str:
    """A conflict as a line."""
    return f"{of.cell}: " + "; ".join(f"{path}: {text}" for path, text in of.rows)


def write(records: list[dict], folder: Path) -> None:
    """Write the rows as the aggregation does. Exits if a record does not follow the schema, or on an error of the disk."""
    found = list(writing.checked(records, fields.schema(FIELDS), cell_of))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_text(folder / "results.jsonl", "".join(writing.lines(found)))
        atomic.write_text(folder / "latency.md", latency_page.page(Table.of(found)))
        atomic.write_text(folder / "latency.csv", "".join(writing.csv(found, COLUMNS)))
    except OSError as error:
        exits.fail(str(error))
