"""Print how the results changed from run to run: the runs that were kept, series of cells, changes with the run in
which they happened, and slow drifts. `--sql` queries all of it: `runs` has a line per run, `rows` the rows of
latency.csv of all runs.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from scripts.config import cell
from scripts.core import checkout, commands, exits
from scripts.results import at_hand, columns, page_sections
from scripts.results.columns import COLUMNS
from scripts.results.results_file import BadRecords, cell_of, read
from scripts.tools.compare import series, store
from scripts.tools.compare.series import LATENCY, NoSuchValue, Step
from scripts.tools.compare.store import Damaged, Kept

OF_COMPILER = ("compile_s", "compile_cpu_s")
"""Columns whose series are followed by the times of passes."""
WIDTH = 200
"""Characters of a line where the output is no terminal."""


def main() -> None:
    args = _parser().parse_args()
    folder = args.results / store.FOLDER.name
    if args.keep:
        rows = args.results / "results.jsonl"
        try:
            at_hand.check(args.results, [record.data for record in read(rows)])
        except BadRecords as error:
            exits.fail(f"nothing was kept: {error}")
        store.keep(rows, store.KINDS[0])
        return
    if args.publish:
        try:
            print(store.publish(folder, args.publish))
        except (BadRecords, msgspec.MsgspecError) as error:
            exits.fail(str(error))
        return
    kept, wrong = store.read(folder, (args.kind,))
    for problem in wrong:
        print(f"note: {problem}", file=sys.stderr)
    if not kept:
        exits.fail(
            f"{folder}: no run is kept; `{checkout.run_command(f'results/{args.kind}.csv')}` adds its results"
        )
    try:
        if args.sql:
            answer(kept, args.sql)
            return
        column = series.value_field(args.value)
        selects = functools.partial(cell.selects, args.cell)
        outcomes, values = series.read(kept, [column], selects)
        of_compiler = args.value in OF_COMPILER and args.cell
        compilations = store.read_compilations(kept, selects) if of_compiler else {}
    except (Damaged, NoSuchValue) as error:
        exits.fail(str(error))
    if args.cell and not outcomes:
        exits.fail(f"no cell in {len(kept)} runs matches --cell {' '.join(args.cell)}")
    shown = values[args.value]
    ended = [step for of_cell in outcomes for step in of_cell.steps]
    if args.json:
        whole = {
            "series": [line.to_json() for line in shown],
            "outcomes": [*map(_ended, ended)],
            "passes": [
                {"cell": name, "run": entry.id, **msgspec.to_builtins(compilation)}
                for name, of_cell in compilations.items()
                for entry, compilation in of_cell
            ],
        }
        print(json.dumps(whole, indent=2, allow_nan=False))
        return
    sections = [
        series.table_of_changes(args.value, args.value, shown),
        series.table_of_endings(ended),
    ]
    if args.cell:
        sections = [series.table_of_points(line, args.value) for line in shown] + sections
    else:
        sections.insert(0, series.table_of_runs([run.entry for run in kept]))
    sections += [series.table_of_passes(name, of_cell) for name, of_cell in compilations.items()]
    print(page_sections.as_text(sections, shutil.get_terminal_size((WIDTH, 0)).columns), end="")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    commands.add_cell_option(parser)
    parser.add_argument(
        "--value",
        default=LATENCY,
        metavar="COLUMN",
        help=f"a column of numbers, such as vmfb_bytes or compile_s (default: {LATENCY})",
    )
    parser.add_argument(
        "--kind", choices=store.KINDS, default=store.KINDS[0], help="default: latency"
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print series and findings as JSON")
    how.add_argument("--sql", metavar="QUERY", help="print the answer of DuckDB as CSV")
    again = "say that the rows of the folder are also those of the present commit, at which a run had nothing to do"
    how.add_argument("--keep", action="store_true", help=again)
    shared = "add the runs to a branch of a remote repository, for `vmfbench compare --history REMOTE/BRANCH`"
    how.add_argument("--publish", metavar="REMOTE/BRANCH", help=shared)
    return parser


def _ended(step: Step) -> dict[str, Any]:
    """A change in how a cell ends as JSON."""
    before, after = step.before, step.after
    return {
        "cell": step.cell,
        "before": {"run": before.entry.id, "ended": before.ending.words},
        "after": {
            "run": after.entry.id,
            "ended": after.ending.words,
            "detail": after.ending.detail,
        },
        "differs": step.differs,
    }


def answer(kept: Sequence[Kept], sql: str) -> None:
    """Print the answer of a query as CSV. Exits if DuckDB refuses it; raises Damaged if an entry cannot be read."""
    import duckdb
    import pandas as pd

    runs = pd.DataFrame(
        {
            "run": entry.entry.id,
            "kind": entry.entry.kind,
            "at": pd.Timestamp(entry.entry.at, unit="s"),
            "commit": entry.entry.commit,
            "machine": entry.entry.machine.name,
            "cpu": entry.entry.machine.cpu,
            "versions": entry.entry.versions,
            "rows": entry.entry.rows,
            "ok": entry.entry.statuses.get("ok", 0),
        }
        for entry in kept
    )
    lines = (
        {"run": entry.entry.id, "cell": str(cell_of(record))} | columns.as_row(record, COLUMNS)
        for entry in kept
        for record in entry.records()
    )
    types = {"run": "object", "cell": "object"} | columns.dtypes(COLUMNS)
    rows = pd.DataFrame(lines, columns=list(types), dtype="object").astype(types)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("runs", runs)
        connection.register("rows", rows)
        try:
            relation = connection.sql(sql)
            out = csv.writer(sys.stdout, lineterminator="\n")
            out.writerow(relation.columns if relation else [])
            rows_found = relation.fetchall() if relation else []
            out.writerows(map(commands.csv_cell, row) for row in rows_found)
        except duckdb.Error as error:
            exits.fail(str(error))
