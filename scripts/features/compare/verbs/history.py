"""Print how the results changed from run to run: the runs that were kept, series of cells, changes with the run in which they
happened, and slow drifts. `--sql` queries all of it: `runs` has a line per run, `rows` the rows of latency.csv of all runs.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import sys
from pathlib import Path

from rich.console import Console

from scripts.core import exits
from scripts.features.compare.history import findings, plot, series, store, tables, words
from scripts.features.compare.history.findings import Ended, Shown
from scripts.features.compare.history.series import LATENCY, NoSuchValue
from scripts.features.compare.history.store import Damaged, Kept
from scripts.features.compare.history.tables import BadQuery
from scripts.matrix import cell
from scripts.records import plotting

KINDS = tuple(kind for kind in store.KINDS if kind != "operators")
"""The aggregates whose rows are cells."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    cell.add_arguments(parser)
    parser.add_argument(
        "--value",
        default=LATENCY,
        metavar="COLUMN",
        help=f"a column of numbers, such as vmfb_bytes or compile_s (default: {LATENCY})",
    )
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help="default: latency")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print series and findings as JSON")
    how.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the series (and FILE.png)")
    how.add_argument("--sql", metavar="QUERY", help="print the answer of DuckDB as CSV")
    args = parser.parse_args()
    kept = read(args.results / store.FOLDER.name, args.kind)
    try:
        if args.sql:
            write_answer(kept, args.sql)
            return
        of = series.value_field(args.value)
        outcomes, values = series.read(kept, [of], functools.partial(cell.selects, args.cell))
    except (Damaged, NoSuchValue, BadQuery) as error:
        exits.fail(str(error))
    if args.cell and not outcomes:
        exits.fail(f"no cell in {len(kept)} runs matches --cell {' '.join(args.cell)}")
    shown = [findings.of_series(one, of) for one in values[args.value]]
    ended = findings.endings(outcomes)
    if args.json:
        print(json.dumps(findings.to_json(shown, ended), indent=2, allow_nan=False))
    elif args.plot:
        plotting.save(functools.partial(plot.figure, shown, args.value), args.plot)
    else:
        show(kept, shown, ended, args.value, whole=bool(args.cell))


def read(folder: Path, kind: str) -> list[Kept]:
    """The entries of a kind. Exits if there are none."""
    kept, wrong = store.read(folder, (kind,))
    for one in wrong:
        print(f"note: {one}", file=sys.stderr)
    if not kept:
        exits.fail(
            f"{folder}: no run is kept; `snakemake --cores <n> results/{kind}.csv` adds its results"
        )
    return kept


def show(
    kept: list[Kept], shown: list[Shown], ended: list[Ended], column: str, whole: bool
) -> None:
    """Print findings, after the series (`whole`) or the runs."""
    console = Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 200)
    if whole:
        for one in shown:
            words.show(console, one, column)
    else:
        console.print(words.runs([one.entry for one in kept]))
        found = [(one, line) for one in shown if one.has_finding for line in words.findings(one, column)]  # fmt: skip
        console.print(f"\n{column}: {len(found)} changes and drifts in {len(shown)} series")
        for one, line in found:
            console.print(f"{one.series.title}\n  {line}", highlight=False, soft_wrap=True)
    if ended:
        console.print(f"\n{len(ended)} changes in how a cell ends")
    for of in ended:
        console.print(words.ended(of), highlight=False, soft_wrap=True)


def write_answer(kept: list[Kept], sql: str) -> None:
    """Print the answer of a query as CSV."""
    columns, lines = tables.query(kept, sql)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(columns)
    out.writerows(lines)
