"""Which models reach which frontend and target, how far the others came and why they stopped."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits
from scripts.core.commands import option
from scripts.features import registry
from scripts.matrix import cell
from scripts.records import coverage
from scripts.records.coverage import ENDINGS
from scripts.records.markdown import text
from scripts.records.results_file import BadRecords, Record, read


@dataclass(frozen=True, kw_only=True)
class Options:
    results: list[Path] = option(
        factory=lambda: [Path("results/results.jsonl")],
        type=Path,
        nargs="+",
        help="one or several results.jsonl that have no cell in common",
    )
    cell: list[str] = option(factory=list, **commands.CELL)
    out_md: Path | None = option(None, help="the page, in Markdown")
    out_csv: Path | None = option(None, help="CSV file with one line per cell and complete details")
    title: str = "Coverage"
    note: str = option("", help="a paragraph below the title, such as what was selected")


def main() -> None:
    registry.load()
    args = commands.parse_options(Options)
    if not (args.out_md or args.out_csv):
        exits.fail("nothing to write: give --out-md, --out-csv or both", code=2)
    try:
        records = load(args.results, args.cell)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))
    cells = coverage.frame(records)
    if args.out_csv:
        atomic.write_text(args.out_csv, coverage.to_csv(cells))
        print(args.out_csv)
    if args.out_md:
        paths = [*map(_from_here, args.results), "--out-md", _from_here(args.out_md)]
        chosen = [word for glob in args.cell for word in ("--cell", glob)]
        command = ["python", "-m", "scripts.stages.report_coverage", *chosen, "--results", *paths]
        made_by = shlex.join(command)
        note = f"\n{args.note}\n" if args.note else ""
        head = f"# {text(args.title)}\n\nMade by `{made_by}`.\n{note}"
        atomic.write_text(args.out_md, head + coverage.page(cells, records))
        print(args.out_md)
    counts = cells["ending"].value_counts()
    print(", ".join(f"{counts[key]} {ENDINGS[key]}" for key in ENDINGS if key in counts))


def load(paths: Sequence[Path], cells: Sequence[str] = ()) -> list[Record]:
    """The records of several results.jsonl that the globs `cells` select, in their order.

    Raises BadRecords for a line that is not a record, for a cell that occurs twice, and if there
    is no IREE cell.
    """
    all_records = [record for path in paths for record in read(path)]
    records = [record for record in all_records if cell.selects(cells, record["cell"])]
    if all_records and not records:
        raise BadRecords(
            f"{', '.join(map(str, paths))}: no cell of {len(all_records)} matches --cell {' '.join(cells)}"
        )
    seen: dict[tuple[str, str], Record] = {}
    for record in records:
        for key in ("stage", "reason"):
            if not isinstance(record.data["outcome"].get(key), str):
                raise BadRecords(f"{record.where}: no outcome.{key}; run the workflow again")
        first = seen.setdefault((record["suite"], record["cell"]), record)
        if first is not record:
            raise BadRecords(
                f"{first.where} and {record.where} are both {record['cell']} of suite"
                f" {record['suite']}; give files to --results that have no cell in common"
            )
    if not any(record.is_iree for record in records):
        raise BadRecords(
            f"{', '.join(map(str, paths))}: found no row of an IREE cell, and coverage is"
            " about those; run the workflow with a frontend and a target"
        )
    return records


def _from_here(path: Path) -> str:
    """A path as the page may show it: a path outside this folder keeps its last two parts only."""
    near = Path(os.path.relpath(path))
    return str(near if ".." not in near.parts else Path(*path.resolve().parts[-2:]))


if __name__ == "__main__":
    commands.run(main)
