"""List the stages that failed: which cell, why, its log, and a command that repeats it.

The command writes below results/repeat/ and does not change the files of the run.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from scripts.core import atomic, exits
from scripts.matrix import cell, feature, stages, toolchains
from scripts.matrix.cell import Cell, Kind
from scripts.matrix.matrix import Matrix
from scripts.matrix.stage import OUTCOMES, REPORT
from scripts.records import remedied
from scripts.supervise import group, outcome, outcomes
from scripts.supervise.outcome import Outcome
from scripts.supervise.outcomes import Line
from scripts.timing.group_timing import MemberTiming

TASKS = "--tasks"
"""The option for the tasks of a batch's worker, which are in the folder of the stage."""
REPEATED = "results/repeat"
"""The folder for the files of repeated stages, instead of results/."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
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
    listed = [(one, *remedy(args.results, matrix, one)) for one in wanted]
    if args.json:
        keys = ("stage", "cell", "status", "reason", "detail", "log", "fingerprint")
        described = [
            {key: getattr(one, key) for key in keys}
            | {"repeat": repeat(one), "remedy": name, "tried": tried}
            for one, name, tried in listed
        ]
        print(json.dumps(described, indent=2))
    elif args.commands:
        for command in filter(None, map(repeat, wanted)):
            print(command)
    else:
        _show(listed)
        folder = args.results.absolute().parent
        if wanted and folder != Path.cwd():
            print(f"paths and commands are of {folder}")
    return 0


def _show(listed: list[tuple[Outcome, str, str]]) -> None:
    """Print the failures, and after them those that a remedy has made good."""
    bad = [line for line in listed if not line[1]]
    good = [line for line in listed if line[1]]
    for shown in (bad, good):
        if shown is good and good:
            print("First errors of cells that a remedy has compiled:\n")
        for one, _, tried in shown:
            print(f"{one.stage} {one.cell}: {one.status} ({one.reason})")
            print(f"    {one.detail}")
            if tried:
                print(f"    remedies: {tried}")
            print(f"    log:    {one.log}\n    repeat: {repeat(one)}\n")
    apart = f"; {len(good)} first errors of cells that a remedy has compiled" if good else ""
    print(f"{len(bad)} failed stages{apart}")


def remedy(results: Path, matrix: Matrix | None, one: Outcome) -> tuple[str, str]:
    """Return the remedy that has made a failure good ("": none), and what was tried, in words; if the last run had any
    remedies for its cell."""
    nothing = "", ""
    instead = next((s for s in stages.STAGES.values() if s.remedies == one.stage), None)
    if instead is None:
        return nothing
    if matrix is not None:
        of = Cell.parse(one.cell, Kind.IREE)
        part = matrix.matrix_of(of.model)
        target = part.target(of.model, of.frontend, of.target)
        if not part.attempts(of.frontend, target):
            return nothing
    try:
        found = atomic.read_json(results.parent / instead.path(one.cell, REPORT))
        return found["name"] or "", remedied.tried({"remedy": found}) or ""
    except (OSError, ValueError, LookupError, TypeError):  # not tried, or by another version
        return nothing


def repeat(one: Outcome) -> str:
    """Return the command of a stage, which writes all its files into another folder; "" if none was recorded.

    That of a member of a group is the command of the group. An environment is made in its usual place, because a failed
    one has left nothing there.
    """
    if not one.command:
        return ""
    own = f"results/{one.stage}/{_folder_of(one)}"

    def moved(word: str, before: str) -> str:
        if before != TASKS and (word == own or word.startswith(f"{own}/")):
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
    """The outcome of every stage of a matrix (None: of any) that failed itself, of every problem of a
    batch that did, and of every row that left the group in which it was timed.

    Stages that were skipped because of another failure are not listed. Neither are old results of
    models or targets that the configuration no longer has, and single attempts of remedies.
    """
    paths = sorted(results.glob("*/**/status.json"))
    found = [(path, outcome.read_or_damaged(path)) for path in paths]
    for path in paths:
        for line in outcomes.read_if_whole(path.with_name(OUTCOMES)).values():
            found += [(path, one) for one in (line.outcome, *_left(line))]
        found += [(path, one) for one in group.outcomes(path.parent)]
    wanted = None if matrix is None else _cells(matrix)
    return [
        one
        for path, one in found
        if path.parent == results / one.stage / _folder_of(one)
        and one.status in outcome.FAILED
        and (wanted is None or _is_env(one, matrix) or (one.stage, _folder_of(one)) in wanted)
    ]


def _left(line: Line) -> Iterator[Outcome]:
    """The outcomes of the rows that left the group in which a problem of a batch was timed."""
    for member, of in line.result.get("timing", {}).get("members", {}).items():
        if of["status"] != outcome.OK:
            left = msgspec.convert(of, MemberTiming)
            cell = f"{member}: {line.problem}"
            yield replace(group.member_outcome(member, left, line.outcome), cell=cell)


def _is_env(one: Outcome, matrix: Matrix | None) -> bool:
    """Whether a failure is that of an environment of the last run: one of envs/, or of its toolchains."""
    return one.stage == "env" and (matrix is None or toolchains.of(one.cell) in matrix.toolchains)


def names(one: Outcome) -> list[str]:
    """The names that `--cell` is matched against: the cell of an outcome, and its row."""
    kinds = [stage.kind for stage in stages.STAGES.values() if stage.folder == one.stage]
    if not kinds or Kind.GROUP in kinds:  # of a stage that no longer exists; a row, or no row's
        return [one.cell]
    return [one.cell, str(Cell.parse(_folder_of(one), *kinds).row)]


def _folder_of(one: Outcome) -> str:
    """Return the cell in whose folder an outcome is: its own, that of a problem's batch, or that of a row's group."""
    log = Path(one.log)
    if log.parent.name == group.MEMBERS:
        return "/".join(log.parts[2:-2])
    return one.cell.partition(": ")[0]


def _cells(matrix: Matrix) -> set[tuple[str, str]]:
    """(stage, cell) of every stage of a matrix, as status files name them."""
    found = {
        (stage.folder, str(of))
        for stage in stages.STAGES.values()
        if stage.kind not in (Kind.ENV, Kind.GROUP)
        for part in matrix.matrices
        for of in part.of_kind(stage.kind)
    }
    # What is dumped is a module, which all numbers of threads share.
    dumped = stages.STAGES["dump_iree"]
    found |= {
        (dumped.folder, str(of.to(dumped.kind)))
        for part in matrix.matrices
        for of in part.of_kind(Kind.MODULE)
    }
    found |= {("time", str(of)) for part in matrix.matrices for of in part.groups()}
    of_features = [row for rows in feature.rows() for row in rows.cells(matrix, Kind.IREE)]
    chains = [(*matrix.chain(row), matrix.timed(row)) for row in of_features]
    return found | {(stage.folder, str(of)) for chain in chains for stage, of in chain}
