"""Compare the rows with what `expect:` of the configuration states; exit with 1 if any differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.core import atomic, commands, exits, options
from scripts.core.options import option
from scripts.features import registry
from scripts.matrix import cell, threads
from scripts.records import remedied
from scripts.records.results_file import BadRecords, cell_of, read

AS_ASKED = "as_asked"
"""The key of an expectation that demands, or refuses, that a cell compiles without a remedy."""


@dataclass(frozen=True, kw_only=True)
class Options:
    matrix: Path = Path("results/logs/matrix.json")
    results: Path = Path("results/results.jsonl")
    as_config: bool = option(False, help="print `expect:` entries for the rows as they are")
    cell: list[str] = option(factory=list, **cell.CELL)


def main() -> int:
    registry.load()
    args = options.parse(Options)
    try:
        records = [record.data for record in read(args.results)]
        expect = {} if args.as_config else atomic.read_json(args.matrix)["expect"]
    except (BadRecords, OSError, ValueError) as error:
        exits.fail(str(error))
    selected = [record for record in records if cell.selects(args.cell, str(cell_of(record)))]
    if records and not selected:
        exits.fail(
            f"{args.results}: no cell of {len(records)} matches --cell {' '.join(args.cell)}"
        )
    if args.as_config:
        print("expect:")
        for record in selected:
            print(f"  {json.dumps(str(cell_of(record)))}: {_entry(record)}")
        return 0
    differences, checked = compare(selected, expect)
    if not differences:
        print(f"{checked} of {len(selected)} cells have an expectation, and all meet it")
        return 0
    table = Table("cell", "expected", "found", "detail", title=f"{len(differences)} differ")
    for line in differences:
        table.add_row(*line)
    Console(width=160).print(table)
    return 1


def compare(
    records: list[dict], expect: dict[str, Any]
) -> tuple[list[tuple[str, str, str, str]], int]:
    """(cell, expected, found, detail) for every record that differs, and the number of records checked."""
    differences, checked = [], 0
    for record in records:
        name, outcome = str(cell_of(record)), record["outcome"]
        # An expectation may leave out the number of threads.
        names = (name, threads.shared(name))
        matching = (p for p in reversed(expect) if any(fnmatchcase(name, p) for name in names))
        wanted = next((expect[p] for p in matching), None)
        if wanted is None:
            continue
        checked += 1
        wanted = wanted if isinstance(wanted, dict) else {"status": wanted}
        allowed = {k: v if isinstance(v, list) else [v] for k, v in wanted.items()}
        here = outcome | {AS_ASKED: not remedied.is_remedied(record)}
        if any(here[key] not in values for key, values in allowed.items()):
            said = {(AS_ASKED, True): "as asked", (AS_ASKED, False): "by remedy"}
            expected = " ".join(
                " or ".join(said.get((key, value), str(value)) for value in values)
                for key, values in allowed.items()
            )
            found_here = " ".join(said.get((key, here[key]), str(here[key])) for key in allowed)
            detail = remedied.first_error(record) or outcome["detail"]
            differences.append((name, expected, found_here, detail))
    return differences, checked


def _entry(record: Mapping[str, Any]) -> str:
    outcome = record["outcome"]
    if outcome["status"] == "ok":
        return "ok"
    return json.dumps({key: outcome[key] for key in ("status", "stage", "reason")})


if __name__ == "__main__":
    commands.run(main)
