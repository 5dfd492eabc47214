"""Compare two runs, or two toolchains of one run; exit with 1 if something has become worse."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.core import atomic, checkout, exits
from scripts.features.compare import code_changes, formats, pairs, pass_changes, remeasuring
from scripts.features.compare.comparing import Settings, compare
from scripts.features.compare.latencies import Estimate
from scripts.features.compare.pairs import Pair
from scripts.matrix import cell, settings
from scripts.matrix.reading import ConfigError
from scripts.records.results_file import BadRecords, read
from scripts.timing.turns import Rule

RESULTS = Path("results")
ROWS = "results.jsonl"
BAD_INPUT = 2
"""The exit code for input that cannot be used: 1 means that something has become worse."""


def main() -> int:
    args = _arguments()
    before, after = args.toolchain or map(str, args.rows)
    try:
        thresholds = _settings(args.configfile)
        rows = [[record.data for record in read(_rows_file(path))] for path in args.rows]
        chosen = pairs.of_toolchains(rows[0], before, after) if args.toolchain else pairs.of_files(*rows)  # fmt: skip
        chosen = [pair for pair in chosen if cell.selects(args.cell, pair.cell)]
        if not chosen:
            problem = f"no cell matches --cell {' '.join(args.cell)}"
            raise BadRecords(problem if args.cell else "there are no rows")
        compiled = [pair for pair in chosen if args.why and code_changes.has_code(pair)]
        codes = [code_changes.of_pair(pair, _folders(args)) for pair in compiled]
        passes = [one for pair in chosen for one in pass_changes.of_pair(pair, _folders(args))]
        comparison = compare(chosen, before, after, thresholds, None, codes, passes)
        if args.remeasure:
            again = _again(args, comparison.measurable, chosen)
            comparison = compare(chosen, before, after, thresholds, again, codes, passes)
        if args.save:
            atomic.write_text(args.save, formats.as_json(comparison, args.all))
        text = formats.FORMATS[args.format](comparison, args.all)
    except (BadRecords, ConfigError, OSError, ValueError) as error:
        exits.fail(str(error), BAD_INPUT)
    print(text, end="")
    return 1 if comparison.alarms else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    option = parser.add_argument
    two = "two folders results/, or two files results.jsonl; with --toolchain one, or none for results/"
    option("rows", nargs="*", type=Path, metavar="BEFORE AFTER", help=two)
    names = ("BEFORE", "AFTER")
    option("--toolchain", nargs=2, metavar=names, help="two toolchains of one run")
    option("--format", choices=formats.FORMATS, default="text")
    shown = "show also latencies of which no change was found"
    option("--all", action="store_true", help=shown)
    saved = f"also write the comparison as JSON, such as {RESULTS}/comparison.json for results/report.html"
    option("--save", type=Path, metavar="FILE", help=saved)
    over = "files over config.yaml, for the thresholds in `compare`"
    option("--configfile", nargs="*", type=Path, default=[], help=over)
    again = "time undecided cells again, both programs in turns, on this machine"
    option("--remeasure", action="store_true", help=again)
    why = "what differs in the code of each cell, and what each dispatch adds to its latency (snakemake code profile)"
    option("--why", action="store_true", help=why)
    seconds = f"turns of a cell that is timed again (default: {Rule.budget_s:g})"
    option("--budget", type=float, default=Rule.budget_s, metavar="SECONDS", help=seconds)
    cell.add_arguments(parser)
    args = parser.parse_args()
    if len(args.rows) != 2 and not (args.toolchain and len(args.rows) < 2):
        parser.error("name two folders or files; or --toolchain BEFORE AFTER and at most one")
    args.rows = args.rows or [RESULTS]
    if args.remeasure and not args.toolchain and len(set(_folders(args))) == 1:
        parser.error(
            "--remeasure: both runs are of the same folder, so the modules and the environment of the one "
            "before are gone; give the results of two checkouts, or --toolchain BEFORE AFTER"
        )
    return args


def _settings(files: Sequence[Path]) -> Settings:
    """The thresholds of config.yaml with further files over it; what they leave out has the default."""
    declared, _ = settings.load({}, [checkout.path("config.yaml"), *files], checkout.ROOT, Path.cwd())  # fmt: skip
    given = dict(declared.get("compare") or {})
    if "outcomes" in given:
        given["outcomes"] = tuple(given["outcomes"])
    return Settings(**given)


def _rows_file(path: Path) -> Path:
    return path / ROWS if path.is_dir() else path


def _folders(args: argparse.Namespace) -> tuple[Path, Path]:
    """The folders in which the runs were started."""
    folders = [_rows_file(path).absolute().parent.parent for path in args.rows]
    return folders[0], folders[-1]


def _again(
    args: argparse.Namespace, cells: Sequence[str], chosen: Iterable[Pair]
) -> dict[str, Estimate]:
    """Time cells again. Says on stderr what it does."""
    by_cell = {pair.cell: pair for pair in chosen}
    # More seconds are more generations: only these narrow an interval.
    generations = max(Rule.generations, round(Rule.generations * args.budget / Rule.budget_s))
    rule = Rule(budget_s=args.budget, generations=generations)
    estimates = {}
    for number, name in enumerate(cells, start=1):
        print(f"[{number}/{len(cells)}] {name}", file=sys.stderr, flush=True)
        try:
            estimates[name] = remeasuring.measure(by_cell[name], _folders(args), rule)
        except remeasuring.NotMeasured as error:
            print(f"    not timed again: {error}", file=sys.stderr, flush=True)
    return estimates
