"""Compare two runs, a run with that of another commit, or two toolchains of one run; exit with 1 if something has become worse."""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from scripts.core import checkout, commands, exits
from scripts.features.compare import baseline_run, code_changes, formats, pairs, remeasuring
from scripts.features.compare.comparing import Comparison, Settings, compare
from scripts.features.compare.history import store
from scripts.features.compare.latencies import Estimate
from scripts.features.compare.pairs import Pair
from scripts.features.compare.remeasuring import NotMeasured
from scripts.features.reproduce.case import NoCase
from scripts.matrix import cell, settings
from scripts.matrix.reading import ConfigError
from scripts.records import at_hand, ci_formats
from scripts.records.ci_formats import BAD_INPUT
from scripts.records.results_file import BadRecords, cell_of, explained, read
from scripts.timing.ratios import FASTER, SLOWER
from scripts.timing.turns import Rule

RESULTS = Path("results")
T = TypeVar("T")


def main() -> int:
    args = _arguments()
    if args.commit:
        try:
            print(baseline_run.commit_of(args.against, args.base))
        except BadRecords as error:
            exits.fail(str(error), BAD_INPUT)
        return 0
    before, after = args.toolchain or map(str, (args.against or args.rows[0], args.rows[-1]))
    try:
        thresholds = _settings(args.configfile)
        read_rows = [read(_rows_file(path)) for path in args.rows]
        rows = [[record.data for record in records] for records in read_rows]
        for path, of_path in zip(args.rows, rows, strict=True):
            if path.is_dir() or args.against:
                selected = [row for row in of_path if cell.selects(args.cell, str(cell_of(row)))]
                at_hand.check(_rows_file(path).parent, selected)
        if args.against:
            results = _rows_file(args.rows[0]).parent
            history = args.history or str(results / store.FOLDER.name)
            baseline = baseline_run.find(args.against, args.base, history, results)
            before, rows = baseline.name, [baseline.rows, *rows]
            if rows[0] == rows[1]:
                print(
                    f"note: {before} has the same rows: nothing that they depend on has changed since",
                    file=sys.stderr,
                )
            if baseline.results and baseline.results.resolve() != results.resolve():
                args.rows = [baseline.results, results]
            elif args.why or args.remeasure or args.recompile:
                raise BadRecords(
                    f"{history}: the results of {before} are not beside it any more, so --why, --remeasure and --recompile have nothing to read; "
                    "--history BEFORE/results/history names that of another folder"
                )
        with explained(itertools.chain(*read_rows)):
            chosen = pairs.of_toolchains(rows[0], before, after) if args.toolchain else pairs.of_files(*rows)  # fmt: skip
            chosen = [pair for pair in chosen if cell.selects(args.cell, pair.cell)]
            if not chosen:
                problem = f"no cell matches --cell {' '.join(args.cell)}"
                raise BadRecords(problem if args.cell else "there are no rows")
            comparison = _compare(args, chosen, (before, after), thresholds)
    except (BadRecords, ConfigError, NoCase, OSError, ValueError) as error:
        exits.fail(str(error), BAD_INPUT)
    by_format = {
        name: functools.partial(form, comparison, args.all)
        for name, form in formats.FORMATS.items()
    }
    ci_formats.write(args.format, by_format)
    return 1 if comparison.alarms else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    option = parser.add_argument
    two = "two folders results/, or two files results.jsonl; with --toolchain or --against one, or none for results/"
    option("rows", nargs="*", type=Path, metavar="BEFORE AFTER", help=two)
    names = ("BEFORE", "AFTER")
    option("--toolchain", nargs=2, metavar=names, help="two toolchains of one run")
    commits = "; ".join(f"{name}: {what}" for name, what in baseline_run.AGAINST.items())
    option(
        "--against",
        choices=baseline_run.AGAINST,
        help=f"compare one folder with the run of a commit. {commits}",
    )
    option(
        "--base",
        default="",
        metavar="BRANCH",
        help="for fork-point; default: that of the pull request, or origin/HEAD",
    )
    option("--commit", action="store_true", help="only print the commit that --against names")
    where = "a folder with runs, or a branch with its files; default: RESULTS/history"
    option("--history", default="", metavar="DIR|BRANCH", help=where)
    ci_formats.add_option(parser, formats.FORMATS)
    shown = "show also latencies of which no change was found"
    option("--all", action="store_true", help=shown)
    over = "files over config.yaml, for the thresholds in `compare`"
    option("--configfile", nargs="*", type=Path, default=[], help=over)
    again = "time undecided cells again, and compile those again whose compile time changed, both programs in turns, on this machine"
    option("--remeasure", action="store_true", help=again)
    again = (
        "compile all cells again, both programs in turns, and compare the CPU time of iree-compile"
    )
    option("--recompile", action="store_true", help=again)
    why = f"what differs in the code of each cell, and what each dispatch adds to its latency ({checkout.run_command('code profile')})"
    option("--why", action="store_true", help=why)
    seconds = f"of turns for a cell that is timed or compiled again (default: {Rule.budget_s:g})"
    option("--budget", type=float, default=Rule.budget_s, metavar="SECONDS", help=seconds)
    longer = "with --remeasure: go on until a cell is decided, for ten times the budget at most"
    option("--until-decided", action="store_true", help=longer)
    commands.add_cell_option(parser)
    args = parser.parse_args()
    if bool(args.toolchain) + bool(args.against) + (len(args.rows) == 2) != 1:
        parser.error(
            "name two folders or files; or --toolchain BEFORE AFTER, or --against, and at most one"
        )
    if args.commit and args.against in (None, baseline_run.LATEST):
        parser.error("--commit: give --against fork-point or parent")
    args.rows = args.rows or [RESULTS]
    is_again = args.remeasure or args.recompile
    if is_again and not (args.toolchain or args.against) and len(set(_folders(args))) == 1:
        parser.error(
            "--remeasure, --recompile: both runs are of the same folder, so the modules and the environment of the one "
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
    return path / baseline_run.ROWS if path.is_dir() else path


def _folders(args: argparse.Namespace) -> tuple[Path, Path]:
    """The folders in which the runs were started."""
    folders = [_rows_file(path).absolute().parent.parent for path in args.rows]
    return folders[0], folders[-1]


def _compare(
    args: argparse.Namespace, chosen: Sequence[Pair], names: tuple[str, str], thresholds: Settings
) -> Comparison:
    """Compare pairs of rows by what they say and, as requested, by their code and by what is measured now."""
    folders = _folders(args)
    compiled = [pair for pair in chosen if args.why and code_changes.has_code(pair)]
    codes = [code_changes.code_change(pair, folders) for pair in compiled]
    passes = [
        change for pair in chosen for change in code_changes.pass_changes_of_pair(pair, folders)
    ]
    by_rows = compare(chosen, *names, thresholds, None, codes, passes)
    again: dict[str, Estimate] = {}
    recompiled: dict[str, Estimate] = {}
    if args.remeasure:
        again = _again(args, by_rows.measurable, chosen, _timed_again)
        codes = [code_changes.code_change(pair, folders, again.get(pair.cell)) for pair in compiled]
    if args.recompile or args.remeasure:
        every = [pair.cell for pair in chosen if remeasuring.is_compiled(pair)]
        cells = every if args.recompile else by_rows.recompilable
        recompiled = _again(args, cells, chosen, _compiled_again)
    if not (again or recompiled or (codes and args.remeasure)):
        return by_rows
    compared = compare(chosen, *names, thresholds, again, codes, passes, recompiled)
    changed = {each.cell for each in compared.latencies if each.verdict in (SLOWER, FASTER)}
    cells = [
        code.cell for code in codes if args.remeasure and code.cell in changed and code.changed
    ]
    if not cells:
        return compared
    by_cell = {code.cell: code for code in codes}
    alone = _again(args, cells, chosen, lambda _, pair: remeasuring.replay_executables(by_cell[pair.cell], pair, folders))  # fmt: skip
    codes = [replace(code, replays=alone.get(code.cell, ())) for code in codes]
    return compare(chosen, *names, thresholds, again, codes, passes, recompiled)


def _again(
    args: argparse.Namespace,
    cells: Sequence[str],
    chosen: Iterable[Pair],
    measure: Callable[[argparse.Namespace, Pair], T],
) -> dict[str, T]:
    """Measure cells again. Says on stderr what it does."""
    by_cell = {pair.cell: pair for pair in chosen}
    estimates = {}
    for number, name in enumerate(cells, start=1):
        print(f"[{number}/{len(cells)}] {name}", file=sys.stderr, flush=True)
        try:
            estimates[name] = measure(args, by_cell[name])
        except (NotMeasured, NoCase) as error:
            print(f"    not measured again: {error}", file=sys.stderr, flush=True)
    return estimates


def _timed_again(args: argparse.Namespace, pair: Pair) -> Estimate:
    # More seconds are more generations: only these narrow an interval.
    generations = max(Rule.generations, round(Rule.generations * args.budget / Rule.budget_s))
    rule = Rule(budget_s=args.budget, generations=generations, until_decided=args.until_decided)
    return remeasuring.time_again(pair, _folders(args), rule)


def _compiled_again(args: argparse.Namespace, pair: Pair) -> Estimate:
    return remeasuring.compile_again(
        pair, _folders(args), remeasuring.compile_rounds(pair, args.budget)
    )
