"""Write the table of operators × lowering paths and targets into a page, from the records of a run.

The page has two comments, `<!-- operators -->` and `<!-- end of operators -->`. What is between them
is replaced.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from scripts.core import atomic, commands, exits
from scripts.features import registry
from scripts.features.operators.report import reach, records_file
from scripts.features.operators.report.table import Table
from scripts.records.results_file import BadRecords

BEGIN, END = "<!-- operators -->\n", "<!-- end of operators -->\n"


def main() -> None:
    registry.load()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.report_operators", description=__doc__
    )
    parser.add_argument("--results", type=Path, default=records_file.JSONL)
    parser.add_argument("--into", required=True, type=Path, help="the page, in Markdown")
    parser.add_argument("--note", default="", help="a paragraph before the tables")
    args = parser.parse_args()
    try:
        table = Table.of(record.data for record in records_file.read(args.results))
        page = args.into.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))
    if BEGIN not in page or END not in rest:
        exits.fail(
            f"{args.into}: expected the lines {BEGIN.strip()} and {END.strip()}, in this order"
        )
    command = ["python", "-m", "scripts.stages.report_operators", "--into", str(args.into)]
    note = f"{args.note}\n\n" if args.note else ""
    made = f"\n{note}Made by `{shlex.join(command)}`.\n\n{reach.tables(table)}\n"
    atomic.write_text(args.into, f"{before}{BEGIN}{made}{END}{after}")


if __name__ == "__main__":
    commands.run(main)
