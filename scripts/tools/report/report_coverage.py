"""Which models reach which frontend and target, how far the others came and why they stopped."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits
from scripts.core.commands import option
from scripts.results import coverage
from scripts.results.coverage import ENDINGS
from scripts.results.results_file import BadRecords, Record, read
from scripts.tools import registry


@dataclass(frozen=True, kw_only=True)
class Options:
    results: list[Path] = option(
        factory=lambda: [Path("results/results.jsonl")],
        type=Path,
        nargs="+",
        help="one or several results.jsonl that have no cell in common",
    )
    out_md: Path | None = option(None, help="the page, in Markdown")
    out_csv: Path | None = option(None, help="CSV file with one line per cell and complete details")


def main() -> None:
    registry.load()
    args = commands.parse_options(Options)
    if not (args.out_md or args.out_csv):
        exits.fail("nothing to write: give --out-md, --out-csv or both", code=2)
    try:
        records = load(args.results)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))
    cells = coverage.frame(records)
    if args.out_csv:
        atomic.write_text(args.out_csv, coverage.to_csv(cells))
        print(args.out_csv)
    if args.out_md:
        paths = [*map(_from_here, args.results), "--out-md", _from_here(args.out_md)]
        made_by = shlex.join(
            ["python", "-m", "scripts.tools.report.report_coverage", "--results", *paths]
        )
        head = f"# Coverage\n\nMade by `{made_by}`.\n"
        atomic.write_text(args.out_md, head + coverage.page(cells, records))
        print(args.out_md)
    counts = cells["ending"].value_counts()
    print(", ".join(f"{counts[key]} {ENDINGS[key]}" for key in ENDINGS if key in counts))


def load(paths: Sequence[Path]) -> list[Record]:
    """The records of several results.jsonl, in their order. Raises BadRecords for a line that is not a record, for a cell that occurs
    twice, and if there is no IREE cell."""
    records = [record for path in paths for record in read(path)]
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
