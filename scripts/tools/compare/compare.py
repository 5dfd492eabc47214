"""Compare two runs, a run with that of another commit, or two toolchains of one run; exit with 1 if something has become worse."""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from scripts.config import cell, settings
from scripts.config.reading import ConfigError
from scripts.core import checkout, commands, exits, machine, temporary
from scripts.measure.timing.ratios import FASTER, SLOWER
from scripts.measure.timing.turns import Rule
from scripts.results import at_hand, ci_formats
from scripts.results.ci_formats import BAD_INPUT
from scripts.results.results_file import BadRecords, cell_of, explained, read
from scripts.run.recorded import NoCase
from scripts.tools.compare import code_changes, formats, pairs, remeasuring, store
from scripts.tools.compare.comparing import Comparison, Settings, compare
from scripts.tools.compare.pairs import Estimate, Pair
from scripts.tools.compare.remeasuring import NotMeasured
from scripts.tools.compare.store import Entry

RESULTS = Path("results")
FORK_POINT, PARENT, LATEST = "fork-point", "parent", "latest"
AGAINST = {
    FORK_POINT: "the newest commit that HEAD shares with the base branch",
    PARENT: "the first parent of HEAD",
    LATEST: "the run that was kept last",
}
"""What a run can be compared with."""
ROWS = "results.jsonl"
SHOWN = 12
"""Digits of a commit."""
T = TypeVar("T")


def main() -> int:
    args = _arguments()
    try:
        if args.commit:
            print(commit_of(args.against, args.base))
            return 0
        comparison = _comparison(args)
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
    commits = "; ".join(f"{name}: {what}" for name, what in AGAINST.items())
    against = f"compare one folder with the run of a commit. {commits}"
    option("--against", choices=AGAINST, help=against)
    base = "for fork-point; default: that of the pull request, or origin/HEAD"
    option("--base", default="", metavar="BRANCH", help=base)
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
    if args.commit and args.against in (None, LATEST):
        parser.error("--commit: give --against fork-point or parent")
    args.rows = args.rows or [RESULTS]
    is_again = args.remeasure or args.recompile
    if is_again and not (args.toolchain or args.against) and len(set(_folders(args))) == 1:
        parser.error(
            "--remeasure, --recompile: both runs are of the same folder, so the modules and the environment of the one "
            "before are gone; give the results of two checkouts, or --toolchain BEFORE AFTER"
        )
    return args


def _rows_file(path: Path) -> Path:
    return path / ROWS if path.is_dir() else path


def _folders(args: argparse.Namespace) -> tuple[Path, Path]:
    folders = [_rows_file(path).absolute().parent.parent for path in args.rows]
    return folders[0], folders[-1]


def _comparison(args: argparse.Namespace) -> Comparison:
    """Read and compare the rows. Raises BadRecords, ConfigError, NoCase, OSError and ValueError."""
    before, after = args.toolchain or map(str, (args.against or args.rows[0], args.rows[-1]))
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
        before, older, older_results = find_run(args.against, args.base, history, results)
        rows = [older, *rows]
        if rows[0] == rows[1]:
            print(
                f"note: {before} has the same rows: nothing that they depend on has changed since",
                file=sys.stderr,
            )
        if older_results and older_results.resolve() != results.resolve():
            args.rows = [older_results, results]
        elif args.why or args.remeasure or args.recompile:
            raise BadRecords(
                f"{history}: the results of {before} are not beside it any more, so --why, --remeasure and --recompile have nothing to read; "
                "--history BEFORE/results/history names that of another folder"
            )
    with explained(itertools.chain(*read_rows)):
        every = (
            pairs.of_toolchains(rows[0], before, after) if args.toolchain else pairs.of_files(*rows)
        )
        chosen = [pair for pair in every if cell.selects(args.cell, pair.cell)]
        if not chosen:
            problem = f"no cell matches --cell {' '.join(args.cell)}"
            raise BadRecords(problem if args.cell else "there are no rows")
        return _compare(args, chosen, (before, after), thresholds)


def _settings(files: Sequence[Path]) -> Settings:
    """The thresholds of config.yaml with further files over it; what they leave out has the default."""
    declared, _ = settings.load({}, [checkout.path("config.yaml"), *files], checkout.ROOT, Path.cwd())  # fmt: skip
    values = dict(declared.get("compare") or {})
    if "outcomes" in values:
        values["outcomes"] = tuple(values["outcomes"])
    return Settings(**values)


# The run of another commit.


def find_run(
    against: str, base: str, history: str, results: Path
) -> tuple[str, list[dict[str, Any]], Path | None]:
    """Return the newest run of the commit that `against` names, of one on the same CPU if there is one: its name, its rows, and its folder
    if that still has these rows.

    `base`: the base branch; "": that of the pull request, or `origin/HEAD`. `history`: a folder, or a branch with the files of one in its
    top folder. `results`: the folder of the run that is compared. Raises BadRecords if there is no such commit or no run of it.
    """
    with temporary.folder("history") as extracted:
        folder = Path(history)
        if not folder.is_dir():
            folder = extracted
            store.extract(history, folder)
        kept, wrong = store.read(folder)
        what, commit = AGAINST[against], ""
        if against == LATEST:
            current = store.id_of((results / ROWS).read_bytes())
            runs = [run for run in kept if run.entry.id != current]
        else:
            commit = commit_of(against, base)
            what = f"{what}, {commit[:SHOWN]}"
            runs = [run for run in kept if any(map(commit.startswith, _commits(run.entry)))]
        if not runs:
            with_run = dict.fromkeys(
                name[:SHOWN] for run in kept[::-1] for name in _commits(run.entry)
            )
            problems = "".join(f"; {problem}" for problem in wrong)
            raise BadRecords(
                f"{history}: no run of {what}, so nothing was compared; commits with a run: "
                f"{', '.join(with_run) or 'none'}. Run the same selection at that commit{problems}"
            )
        cpu = machine.cpu_name()
        run = ([run for run in runs if run.entry.machine.cpu == cpu] or runs)[-1]
        rows = list(run.records())
        name = f"{against} {commit[:SHOWN] or ' '.join(_commits(run.entry)[-1:])}".strip()
        beside = run.path.parent.parent / ROWS
        is_whole = beside.is_file() and store.id_of(beside.read_bytes()) == run.entry.id
        return name, rows, beside.parent if is_whole else None


def _commits(entry: Entry) -> list[str]:
    """The commits of a run, without those from which a file differed. Entries of older versions have only that of the checkout."""
    return [name for name in entry.commits or [entry.commit] if name and "-dirty" not in name]


def commit_of(against: str, base: str) -> str:
    """The full hash of the commit that FORK_POINT or PARENT names in the working folder. Raises BadRecords."""
    if against == PARENT:
        return _git("rev-parse", "--verify", "HEAD^1")
    pull_request = os.environ.get("GITHUB_BASE_REF")
    main = base or (f"origin/{pull_request}" if pull_request else "origin/HEAD")
    shared, head = _git("merge-base", "HEAD", main), _git("rev-parse", "HEAD")
    if shared == head:
        raise BadRecords(
            f"HEAD, {head[:SHOWN]}, is a commit of {main} itself; use --against parent"
        )
    return shared


def _git(*words: str) -> str:
    """The output of git in the working folder. Raises BadRecords."""
    try:
        return store.git(*words).decode().strip()
    except BadRecords as error:
        raise BadRecords(
            f"{error}; --base names another branch, and a shallow clone has no older commits (actions/checkout: fetch-depth: 0)"
        ) from error


# Rows, code, and what is measured now.


def _compare(
    args: argparse.Namespace, chosen: Sequence[Pair], names: tuple[str, str], thresholds: Settings
) -> Comparison:
    """Compare pairs of rows by what they say and, as requested, by their code and by what is measured now."""
    folders = _folders(args)
    by_cell = {pair.cell: pair for pair in chosen}
    compiled = [pair for pair in chosen if args.why and code_changes.has_code(pair)]
    passes = [
        change for pair in chosen for change in code_changes.pass_changes_of_pair(pair, folders)
    ]
    codes = {pair.cell: code_changes.code_change(pair, folders) for pair in compiled}
    again: dict[str, Estimate] = {}
    recompiled: dict[str, Estimate] = {}

    def compared() -> Comparison:
        return compare(chosen, *names, thresholds, again, [*codes.values()], passes, recompiled)

    comparison = compared()
    if args.remeasure:
        # More seconds are more generations: only these narrow an interval.
        generations = max(Rule.generations, round(Rule.generations * args.budget / Rule.budget_s))
        rule = Rule(budget_s=args.budget, generations=generations, until_decided=args.until_decided)
        timed = [by_cell[name] for name in comparison.measurable]
        again |= _again(timed, lambda pair: remeasuring.time_again(pair, folders, rule))
        codes |= {
            pair.cell: code_changes.code_change(pair, folders, again.get(pair.cell))
            for pair in compiled
        }
    if args.recompile or args.remeasure:
        every = [pair for pair in chosen if remeasuring.is_compiled(pair)]
        slower = every if args.recompile else [by_cell[name] for name in comparison.recompilable]
        recompiled |= _again(
            slower,
            lambda pair: remeasuring.compile_again(
                pair, folders, remeasuring.compile_rounds(pair, args.budget)
            ),
        )
        comparison = compared()
    if args.remeasure:
        changed = {each.cell for each in comparison.latencies if each.verdict in (SLOWER, FASTER)}
        slower = [
            by_cell[code.cell] for code in codes.values() if code.cell in changed and code.changed
        ]
        replays = _again(
            slower, lambda pair: remeasuring.replay_executables(codes[pair.cell], pair, folders)
        )
        codes |= {name: replace(codes[name], replays=of_cell) for name, of_cell in replays.items()}
        comparison = compared()
    return comparison


def _again(chosen: Sequence[Pair], measure: Callable[[Pair], T]) -> dict[str, T]:
    """Measure cells again. Says on stderr what it does."""
    measured = {}
    for number, pair in enumerate(chosen, start=1):
        print(f"[{number}/{len(chosen)}] {pair.cell}", file=sys.stderr, flush=True)
        try:
            measured[pair.cell] = measure(pair)
        except (NotMeasured, NoCase) as error:
            print(f"    not measured again: {error}", file=sys.stderr, flush=True)
    return measured
