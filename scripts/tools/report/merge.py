"""Merge the rows of several results folders, such as the batches of a large matrix, into one set of rows.

Writes latency.csv, latency.md and results.jsonl. A cell that several files have with the same measurement is one row. If they differ,
the command names the cell and ends, unless --prefer says which one to take.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.core import exits
from scripts.results import latency_page, results_file, speedups
from scripts.results.record import add_dynamic_costs
from scripts.results.results_file import BadRecords, cell_of

Record = dict[str, Any]
FIRST, LAST, NEWEST = "first", "last", "newest"
CHOICES = (FIRST, LAST, NEWEST)
"""Which record of a cell to take: that of the first file, of the last file, or the one that was measured last."""
RELATIVE = ("speedup_vs_", "verdict")
"""Beginnings of the values of a latency that depend on other rows of the same run."""
NAMED = 20
"""Conflicts that are printed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, help="results.jsonl of each folder")
    parser.add_argument("-o", "--out", required=True, type=Path, help="folder of the merged rows")
    parser.add_argument(
        "--prefer",
        choices=CHOICES,
        help="which row of a cell to take: of the first file, of the last one, or measured last",
    )
    args = parser.parse_args()
    out = args.out / "results.jsonl"
    if out.resolve() in {path.resolve() for path in args.results}:
        exits.fail(f"{out} is one of the files to merge; give another folder with -o")
    try:
        files = {path: results_file.read(path) for path in args.results}
        for records in files.values():
            results_file.check(records)
    except BadRecords as error:
        exits.fail(str(error))
    read = {path: [record.data for record in records] for path, records in files.items()}
    merged, conflicts = merge(read, args.prefer)
    for line in conflicts[:NAMED]:
        print(line)
    if len(conflicts) > NAMED:
        print(f"… and {len(conflicts) - NAMED} more")
    if conflicts and args.prefer is None:
        exits.fail(
            f"{len(conflicts)} cells have different rows; nothing was written. "
            f"--prefer {'|'.join(CHOICES)} says which ones to take"
        )
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        latency_page.ROW_SET.write(latency_page.content(merged), args.out)
    except OSError as error:
        exits.fail(str(error))
    print(f"{args.out}: {len(merged)} rows of {len(args.results)} files")


def merge(
    files: Mapping[Path, Sequence[Record]], prefer: str | None = None
) -> tuple[list[Record], list[str]]:
    """Return the records of all files, one per cell in the order of the files, with speed-ups over the merged rows; and a line
    about each cell with different records.

    `prefer`: one of CHOICES for such a cell, else the first file's.
    """
    by_cell: dict[str, list[tuple[Path, Record]]] = {}
    for path, records in files.items():
        for record in records:
            by_cell.setdefault(str(cell_of(record)), []).append((path, record))
    conflicts = [
        f"{cell}: " + "; ".join(f"{path}: {_described(record)}" for path, record in rows)
        for cell, rows in by_cell.items()
        if len({_own(record) for _, record in rows}) > 1
    ]
    chosen = [_chosen([row for _, row in rows], prefer or FIRST) for rows in by_cell.values()]
    speedups.add_speedups(chosen)
    add_dynamic_costs(chosen)
    return chosen, conflicts


def _chosen(records: Sequence[Record], prefer: str) -> Record:
    if prefer != NEWEST:
        return records[-1 if prefer == LAST else 0]

    def measured(record: Record) -> float:
        return float(record["latency"]["started"]) if record["latency"] else 0.0

    return max(reversed(records), key=measured)  # the later file, if it is not known


def _own(record: Record) -> str:
    """Return a text that is equal for records of the same measurement, without what depends on other rows."""
    latency = record["latency"]
    own = latency and {k: v for k, v in latency.items() if not k.startswith(RELATIVE)}
    outcome = {k: v for k, v in record["outcome"].items() if k != "stale"}
    kept = {k: v for k, v in record.items() if k not in ("latency", "outcome", "work")}
    return json.dumps([kept, own, outcome], sort_keys=True)


def _described(record: Record) -> str:
    """How a row ended, its latency, and the versions that it names."""
    ended, latency = record["outcome"], record["latency"]
    result = f"{latency['ms']:.4g} ms" if latency else f"{ended['status']} ({ended['reason']})"
    versions = ", ".join(
        f"{name} {version}" for name, version in record["versions"].items() if version
    )
    return f"{result} with {versions}" if versions else result
