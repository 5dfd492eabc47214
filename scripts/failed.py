"""List the stages that failed: which cell, why, its log, and a command that repeats it.

The command writes below results/repeat/ and does not change the files of the run.
"""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from scripts.lib.batch import outcomes
from scripts.lib.config import cell, stages, toolchains
from scripts.lib.config.cell import Cell, Kind
from scripts.lib.config.matrix import Matrix
from scripts.lib.config.stage import OUTCOMES, REPORT
from scripts.lib.core import atomic, commands, exits
from scripts.lib.report import remedied
from scripts.lib.supervision import outcome
from scripts.lib.supervision.outcome import Outcome

TASKS = "--tasks"
"""The option for the tasks of a batch's worker, which are in the folder of the stage."""
REPEATED = "results/repeat"
"""The folder for the files of repeated stages, instead of results/."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.failed", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--stage", default="*", help="glob, such as compile")
    parser.add_argument("--status", default="*", help="glob, such as crashed")
    cell.add_arguments(parser)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--commands", action="store_true", help="print only the commands")
    shown.add_argument("--json", action="store_true", help="print a list of objects")
    args = parser.parse_args()
    try:
        matrix = last_matrix(args.results)
        found = failures(args.results, matrix)
    except (OSError, ValueError) as error:
        exits.fail(str(error))
    wanted = [
        o for o in found
        if fnmatchcase(o.stage, args.stage) and fnmatchcase(o.status, args.status)
        and cell.selects(args.cell, *names(o))
    ]  # fmt: skip
    remedy_of = {(one.stage, one.cell): remedy(args.results, matrix, one) for one in wanted}
    if args.json:
        described = [_described(one, remedy_of[one.stage, one.cell]) for one in wanted]
        print(json.dumps(described, indent=2))
    elif args.commands:
        for command in filter(None, map(repeat, wanted)):
            print(command)
    else:
        _show(wanted, remedy_of)
        folder = args.results.absolute().parent
        if wanted and folder != Path.cwd():
            print(f"paths and commands are of {folder}")
    return 0


def _show(wanted: list[Outcome], remedy_of: dict[tuple[str, str], Remedy]) -> None:
    """Print the failures, and after them those that a remedy has made good."""
    good = [one for one in wanted if remedy_of[one.stage, one.cell].name]
    bad = [one for one in wanted if one not in good]
    for group in (bad, good):
        if group is good and good:
            print("First errors of cells that a remedy has compiled:\n")
        for one in group:
            print(f"{one.stage} {one.cell}: {one.status} ({one.reason})")
            print(f"    {one.detail}")
            if said := remedy_of[one.stage, one.cell].said:
                print(f"    remedies: {said}")
            print(f"    log:    {one.log}\n    repeat: {repeat(one)}\n")
    apart = f"; {len(good)} first errors of cells that a remedy has compiled" if good else ""
    print(f"{len(bad)} failed stages{apart}")


@dataclass(frozen=True)
class Remedy:
    """The remedy that has made a failure good ("": none), and what was tried, in words."""

    name: str = ""
    said: str = ""


def remedy(results: Path, matrix: Matrix | None, one: Outcome) -> Remedy:
    """Return what remedies made of a failure, if the last run had any for its cell."""
    instead = next((s for s in stages.STAGES.values() if s.remedies == one.stage), None)
    if instead is None or (matrix is not None and not _has_remedies(matrix, one)):
        return Remedy()
    report = results.parent / instead.path(one.cell, REPORT)
    try:
        found = atomic.read_json(report)
        return Remedy(found["name"] or "", remedied.tried({"remedy": found}) or "")
    except (OSError, ValueError, LookupError, TypeError):  # not tried, or by another version
        return Remedy()


def _has_remedies(matrix: Matrix, one: Outcome) -> bool:
    of = Cell.parse(one.cell, Kind.IREE)
    part = matrix.part_of(of["model"])
    target = part.target(of["model"], of["frontend"], of["target"])
    return bool(part.attempts(of["frontend"], target))


def _described(one: Outcome, by: Remedy) -> dict[str, str]:
    """Return a failure as a JSON object: the readable fields of status.json, the command, and what
    remedies made of it."""
    keys = ("stage", "cell", "status", "reason", "detail", "log", "fingerprint")
    described = {key: getattr(one, key) for key in keys} | {"repeat": repeat(one)}
    return described | {"remedy": by.name, "tried": by.said}


def repeat(one: Outcome) -> str:
    """Return the command of a stage, which writes all its files into another folder.

    Returns "" if no command was recorded. A stage writes only into its own folder, except that the
    second round of a baseline also consumes the cache of the first round. An environment is made in
    its usual place, because a failed one has left nothing there.
    """
    if not one.command:
        return ""
    own = f"results/{one.stage}/{_cell_of(one)}"
    first = f"results/{stages.first_round(one.stage)}/{_cell_of(one)}/cache"

    def moved(word: str, before: str) -> str:
        if before != TASKS and (word in (own, first) or word.startswith(f"{own}/")):
            return REPEATED + word.removeprefix("results")
        return word

    words = shlex.split(one.command)
    command = shlex.join(map(moved, words, ["", *words]))
    folder = shlex.quote(REPEATED + own.removeprefix("results"))
    return f"mkdir -p {folder} && {command}"


def last_matrix(results: Path) -> Matrix | None:
    """The matrix of the last run; None if none is recorded. Raises OSError or ValueError."""
    last = results / "logs" / "matrix.json"
    return Matrix.from_json(atomic.read_json(last)) if last.exists() else None


def failures(results: Path, matrix: Matrix | None) -> list[Outcome]:
    """The outcome of every stage of a matrix (None: of any) that failed itself, and of every problem of a
    batch that did.

    Stages that were skipped because of another failure are not listed. Neither are old results of
    models or targets that the configuration no longer has, and single attempts of remedies.
    """
    paths = sorted(results.glob("*/**/status.json"))
    found = [(path, outcome.read_or_damaged(path)) for path in paths]
    for path in paths:
        problems = outcomes.read_if_whole(path.with_name(OUTCOMES))
        found += [(path, line.outcome) for line in problems.values()]
    wanted = None if matrix is None else _cells(matrix)
    return [
        one
        for path, one in found
        if path.parent == results / one.stage / _cell_of(one)
        and one.status in outcome.FAILED
        and (wanted is None or _is_env(one, matrix) or (one.stage, _cell_of(one)) in wanted)
    ]


def _is_env(one: Outcome, matrix: Matrix | None) -> bool:
    """Whether a failure is that of an environment of the last run: one of envs/, or of its toolchains."""
    return one.stage == "env" and (matrix is None or toolchains.of(one.cell) in matrix.toolchains)


def names(one: Outcome) -> list[str]:
    """The names that `--cell` is matched against: the cell of an outcome, and its row."""
    kinds = [stage.kind for stage in stages.STAGES.values() if stage.folder == one.stage]
    if not kinds:  # of a stage that no longer exists
        return [one.cell]
    return [one.cell, str(Cell.parse(_cell_of(one), *kinds).row)]


def _cell_of(one: Outcome) -> str:
    """Return the cell of an outcome, without the problem of a batch."""
    return one.cell.partition(": ")[0]


def _cells(matrix: Matrix) -> set[tuple[str, str]]:
    """(stage, cell) of every stage of a matrix, as status files name them."""
    found = {
        (stage.folder, str(of))
        for stage in stages.STAGES.values()
        if stage.kind is not Kind.ENV
        for part in matrix.parts
        for of in part.of_kind(stage.kind)
    }
    # What is dumped is a module, which all numbers of threads share.
    dumped = stages.STAGES["dump_iree"]
    found |= {
        (dumped.folder, str(of.to(dumped.kind)))
        for part in matrix.parts
        for of in part.of_kind(Kind.MODULE)
    }
    rows = [(*matrix.chain(row), *matrix.second_round(row)) for row in matrix.tuned_rows()]
    return found | {(stage.folder, str(of)) for row in rows for stage, of in row}


if __name__ == "__main__":
    commands.run(main)
