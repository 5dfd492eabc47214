"""Write results.jsonl in a format that another tool reads without changes."""

from __future__ import annotations

import argparse
import importlib
import math
import pkgutil
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType

from scripts.config import cell
from scripts.core import atomic, commands, exits
from scripts.results.results_file import NAME, BadRecords, Record, explained, read
from scripts.tools.operators.report import backendbench
from scripts.tools.report import formats as record_formats
from scripts.tools.report.formats import CELL_KEYS, Export, as_text, named

RESULTS = Path("results/results.jsonl")


def main() -> None:
    args, module = _arguments()
    try:
        records = getattr(module, "read", read)(args.results)
        written = args.results.stat().st_mtime
        timestamp = written if args.timestamp is None else args.timestamp
        export = Export(select(records, args.cell, args.only), records, timestamp)
        with explained(records):
            rendered = module.render(export, args)
        files = _placed(rendered, args, module)
        for path, text in files.items():
            atomic.write_text(path, text)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        exits.fail(
            f"{args.results}: a record has another form than expected ({error!r:.300}); was it made by another version?"
        )
    for path in files:
        print(path)
    for note in export.notes:
        print(f"note: {note}", file=sys.stderr)


def formats() -> dict[str, ModuleType]:
    """Every format by its name on the command line: the name of its module, with dashes."""
    names = (
        f"{record_formats.__name__}.{module.name}"
        for module in pkgutil.iter_modules(record_formats.__path__)
    )
    modules = [*map(importlib.import_module, names), backendbench]
    named = {module.__name__.rpartition(".")[2].replace("_", "-"): module for module in modules}
    return dict(sorted(named.items()))


def select(records: list[Record], cells: list[str], only: list[tuple[str, str]]) -> list[Record]:
    """The records that the globs of `--cell` select and that match every `KEY=GLOB`; a value that a record lacks is "". Raises
    BadRecords if there is none."""
    if not records:
        raise BadRecords("nothing to export: the file has no record")
    of_cells = [record for record in records if cell.selects(cells, record["cell"])]
    if not of_cells:
        raise BadRecords(
            f"nothing to export: no record matches --cell {' '.join(cells)};"
            f" there are: {named(records)}"
        )
    chosen = [
        record
        for record in of_cells
        if all(fnmatchcase(as_text(record[key]), glob) for key, glob in only)
    ]
    if not chosen:
        conditions = " ".join(f"--only '{key}={glob}'" for key, glob in only)
        there = ", ".join(
            sorted({as_text(r[key]) or "''" for r in of_cells for key, _ in only[:1]})
        )
        raise BadRecords(
            f"nothing to export: no record matches {conditions}; {only[0][0]} is one of: {there}"
        )
    return chosen


def _placed(rendered: str | dict[str, str], args: argparse.Namespace, module: ModuleType) -> dict:
    """Texts by path. --out names the file, or the folder; a format of several files needs a folder."""
    folder = args.results.parent / args.format
    if isinstance(rendered, dict):
        if args.out is not None and args.out.is_file():
            raise BadRecords(f"{args.out}: this format writes several files; name a folder")
        parts = ((name, part) for name in rendered for part in name.split("/"))
        if wrong := next((name for name, part in parts if not re.search(NAME, part)), None):
            raise BadRecords(
                f"{args.results}: a record gives the file name {wrong!r:.80}, expected one that stays in its folder"
            )
        return {(args.out or folder) / name: text for name, text in rendered.items()}
    out = args.out or folder
    if args.out is None or out.is_dir():
        out = out / module.FILE
    return {out: rendered}


def _arguments() -> tuple[argparse.Namespace, ModuleType]:
    """The options, including those of the chosen format. --help without a format shows those of all."""
    by_name = formats()
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--format")
    chosen = first.parse_known_args()[0].format
    parser = argparse.ArgumentParser(
        description=__doc__,
        allow_abbrev=False,
        conflict_handler="resolve",  # two formats may have an option of the same name
    )
    parser.add_argument("--format", required=True, choices=list(by_name))
    parser.add_argument(
        "--results",
        type=Path,
        help=f"default: {RESULTS}, or the file that the format is made of",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="file, or folder for formats of several files (default: a folder with the name of the"
        " format, in the folder of --results)",
    )
    commands.add_cell_option(parser)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        type=_condition,
        metavar="KEY=GLOB",
        help=f"only records whose KEY matches; may be repeated; KEY: {', '.join(CELL_KEYS)}",
    )
    parser.add_argument(
        "--timestamp",
        type=_seconds,
        help="when the run ended, seconds since the epoch (default: when --results was written)",
    )
    for name, module in by_name.items():
        if chosen in (None, name):
            summary = (module.__doc__ or "").splitlines()[0]
            module.add_options(parser.add_argument_group(f"--format {name}", summary))
    args = parser.parse_args()
    module = by_name[args.format]
    args.results = args.results or getattr(module, "RESULTS", RESULTS)
    return args, module


def _condition(text: str) -> tuple[str, str]:
    key, equals, glob = text.partition("=")
    if not equals or key not in CELL_KEYS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not KEY=GLOB with KEY one of: {', '.join(CELL_KEYS)}"
        )
    return key, glob


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds since the epoch; `date +%s` prints one"
        )
    return seconds
