"""Print how the results changed from run to run: the runs that were kept, series of cells, changes with the run in
which they happened, and slow drifts. `--sql` queries all of it: `runs` has a line per run, `rows` the rows of
latency.csv of all runs.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from scripts.core import checkout, commands, exits
from scripts.core.console import Console
from scripts.features.compare.history import series, store
from scripts.features.compare.history.changes import LEAST
from scripts.features.compare.history.series import LATENCY, NoSuchValue, Point, Series, Step
from scripts.features.compare.history.store import ALL_PASSES, Compilation, Damaged, Entry, Kept
from scripts.matrix import cell
from scripts.records import at_hand, fields, page_sections, wording
from scripts.records.columns import COLUMNS
from scripts.records.page_sections import Section
from scripts.records.results_file import BadRecords, cell_of, read
from scripts.records.screen import plain_table

OF_COMPILER = ("compile_s", "compile_cpu_s")
"""Columns whose series are followed by the times of passes."""
WIDTH = 200
"""Characters of a line of a table."""
BAR = 24
"""Characters of the longest bar."""
LARGE = 0.05
"""The share of the compiler's seconds from which a pass is shown, and the runs that are."""
COMPILATIONS = 6
EIGHTHS = " ▏▎▍▌▋▊▉"


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
        passes = [
            {"cell": name, "run": entry.id, **msgspec.to_builtins(compilation)}
            for name, of_cell in compilations.items()
            for entry, compilation in of_cell
        ]
        whole = {
            "series": [each.to_json() for each in shown],
            "outcomes": [*map(_ended, ended)],
            "passes": passes,
        }
        print(json.dumps(whole, indent=2, allow_nan=False))
        return
    console = Console(
        soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else WIDTH
    )
    if args.cell:
        for each in shown:
            _print_series(console, each, args.value)
    else:
        entries = series.runs([run.entry for run in kept])
        print(page_sections.as_text([entries], width=WIDTH), end="")
        findings = [
            (each.title, line)
            for each in shown
            if each.has_finding
            for line in _findings(each, args.value)
        ]
        console.print(f"\n{args.value}: {len(findings)} changes and drifts in {len(shown)} series")
        for title, line in findings:
            console.print(f"{title}\n  {line}", highlight=False, soft_wrap=True)
    if ended:
        console.print(f"\n{len(ended)} changes in how a cell ends")
    for step in ended:
        before, after = step.before.ending.words, step.after.ending.words
        line = f"{step.cell}: {before} → {after} in run {_run(step.after)}{_differs(step)}"
        console.print(line, highlight=False, soft_wrap=True)
    for name, of_cell in compilations.items():
        print(page_sections.as_text([_passes(name, of_cell)], width=WIDTH), end="")


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
        {"run": entry.entry.id, "cell": str(cell_of(record))} | fields.row(record, COLUMNS)
        for entry in kept
        for record in entry.records()
    )
    types = {"run": "object", "cell": "object"} | fields.dtypes(COLUMNS)
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


def _print_series(console: Console, shown: Series, column: str) -> None:
    """Print a series as a table with bars, and what was found in it."""
    console.print(Text(shown.title, style="bold"))
    table = plain_table()
    unit = f" ({shown.unit})" if shown.unit and not column.endswith(f"_{shown.unit}") else ""
    for name in ("run", "when (UTC)", "commit"):
        table.add_column(name)
    table.add_column("times as fast" if shown.anchor else f"{column}{unit}", justify="right")
    if shown.anchor:
        table.add_column(column, justify="right")
    table.add_column("")
    changed_at = {step.after for step in shown.steps}
    most = max(shown.values, default=0.0)
    for point, value in zip(shown.points, shown.values, strict=True):
        eighths = round(8 * BAR * value / most) if most > 0 else 0
        bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
        ms = [wording.milliseconds(point.ms)] if shown.anchor and point.ms else []
        mark = " ← change" if point in changed_at else ""
        run = (point.entry.short, series.when(point.at), point.entry.commit)
        table.add_row(*run, _value(point, shown, column), *ms, bar + mark)
    console.print(table)
    for line in _findings(shown, column):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    console.print()


def _findings(shown: Series, column: str) -> list[str]:
    """What was found in a series, as lines."""
    points, lines = shown.points, []
    if shown.follows:
        lines.append(f"starts anew with another anchor, after {shown.follows}")
    for step in shown.steps:
        before, after = (_value(point, shown, column, False) for point in (step.before, step.after))
        lines.append(
            f"change in run {_run(step.after)}: {before} → {after}, {series.interval(step.ratio)}{_differs(step)}"
        )
    if drift := shown.drift:
        lines.append(
            f"slow drift from run {_run(points[0])} to {_run(points[-1])}: {series.interval(drift.ratio)} over "
            f"{len(points)} runs, × {drift.step:.4f} per run"
        )
    if not shown.has_finding:
        few = f"; {len(points)} of the {LEAST} runs that a change needs"
        lines.append("no change was found" + (few if len(points) < LEAST else ""))
    return lines


def _run(point: Point) -> str:
    return f"{point.entry.short} ({series.when(point.at)})"


def _differs(step: Step) -> str:
    differs = ", ".join(step.differs) or "nothing that the rows record"
    return f"; since run {step.before.entry.short}: {differs}"


def _value(point: Point, shown: Series, column: str, with_interval: bool = True) -> str:
    """The value of a point of a series as text, of a latency with its interval."""
    if point.value is None:
        return "–"
    if column != LATENCY:
        return f"{point.value:,.10g}"
    form = "{:.4g}".format if shown.anchor else wording.milliseconds
    ends = point.ends if with_interval else None
    return f"{form(point.value)} ({' to '.join(map(form, ends))})" if ends else form(point.value)


def _passes(cell: str, compilations: Sequence[tuple[Entry, Compilation]]) -> Section:
    """A table of the passes of a cell that take a large part of the compiler's seconds in one of the newest runs."""
    newest = compilations[-COMPILATIONS:]
    runs = [f"IREE {compilation.iree or '?'}\nrun {entry.short}" for entry, compilation in newest]
    head = (f"{cell}: s of iree-compile on one thread", *runs)
    shown = [compilation.seconds for _, compilation in newest]
    names = dict.fromkeys(name for seconds in shown for name in seconds)
    large = [n for n in names if any(s.get(n, 0.0) >= LARGE * s[ALL_PASSES] for s in shown)]
    others = (2 * s[ALL_PASSES] - sum(s.get(name, 0.0) for name in large) for s in shown)
    rows = [(name, *(f"{seconds.get(name, 0.0):.2f}" for seconds in shown)) for name in large]
    rows.append(("(others)", *(f"{seconds:.2f}" for seconds in others)))
    return Section("", head, rows, range(1, len(head)))
