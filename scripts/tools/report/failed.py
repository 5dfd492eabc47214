"""List the stages that failed: which cell, why, its log, and a command that repeats it.

The command writes below results/repeat/ and does not change the files of the run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from scripts.config import cell, feature, stages
from scripts.config.cell import Cell, EntryName, Kind
from scripts.config.rows import Matrix
from scripts.config.stages import OUTCOMES, REPORT
from scripts.core import atomic, commands, exits, requests
from scripts.measure.timing.group_timing import MemberTiming
from scripts.results import remedied
from scripts.supervise import group, outcome
from scripts.supervise.outcome import Outcome, ProblemEnd

DETAIL_CHARS = 2000
"""How much is printed of the line that says what went wrong."""
REPEATED = "results/repeat"
"""The folder for the files of repeated stages, instead of results/."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--stage", default="*", help="glob, such as compile")
    parser.add_argument("--status", default="*", help="glob, such as crashed")
    commands.add_cell_option(parser)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--commands", action="store_true", help="print only the commands")
    shown.add_argument("--json", action="store_true", help="print a list of objects")
    args = parser.parse_args()
    try:
        matrix = last_matrix(args.results)
        failed = failures(args.results, matrix)
    except (OSError, ValueError) as error:
        exits.fail(str(error))
    wanted = [
        o for o in failed
        if fnmatchcase(o.stage, args.stage) and fnmatchcase(o.status, args.status)
        and cell.selects(args.cell, *names(o))
    ]  # fmt: skip
    listed = [(ended, *remedy(args.results, matrix, ended)) for ended in wanted]
    if args.json:
        keys = ("stage", "cell", "status", "reason", "detail", "log", "fingerprint")
        described = [
            {key: getattr(ended, key) for key in keys}
            | {"repeat": repeat(ended), "remedy": name, "tried": tried}
            for ended, name, tried in listed
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
        for ended, _, tried in shown:
            print(f"{ended.stage} {ended.cell}: {ended.status} ({ended.reason})")
            print(f"    {ended.detail:.{DETAIL_CHARS}}")
            if tried:
                print(f"    remedies: {tried}")
            print(f"    log:    {ended.log}\n    repeat: {repeat(ended)}\n")
    apart = f"; {len(good)} first errors of cells that a remedy has compiled" if good else ""
    print(f"{len(bad)} failed stages{apart}")


def remedy(results: Path, matrix: Matrix | None, ended: Outcome) -> tuple[str, str]:
    """Return the remedy that has made a failure good ("": none), and what was tried, in words; if the last run had any
    remedies for its cell."""
    nothing = "", ""
    instead = next((s for s in stages.STAGES.values() if s.remedies == ended.stage), None)
    if instead is None:
        return nothing
    if matrix is not None:
        cell = Cell.parse(ended.cell, Kind.IREE)
        part = matrix.matrix_of(cell.model)
        target = part.target(cell.model, cell.frontend, cell.target)
        if not part.attempts(cell.frontend, target):
            return nothing
    try:
        report = atomic.read_json(results.parent / instead.path(ended.cell, REPORT))
        return report["name"] or "", remedied.tried({"remedy": report}) or ""
    except (OSError, ValueError, LookupError, TypeError):  # not tried, or by another version
        return nothing


def repeat(ended: Outcome) -> str:
    """Return the command of a stage, which writes all its files into another folder; "" if none was recorded.

    That of a member of a group is the command of the group. An environment is made in its usual place, because a failed
    one has left nothing there.
    """
    before, asked, request = ended.command.partition(" --request ")
    if not asked:  # of a tool
        return ended.command
    copy = request.replace("results", REPEATED, 1)
    folder = copy.replace(f"/{requests.FILE}", "")
    return f"mkdir -p {folder} && cp {request} {folder} && {before}{asked}{copy}"


def last_matrix(results: Path) -> Matrix | None:
    """The matrix of the last run; None if none is recorded. Raises OSError or ValueError."""
    last = results / "logs" / "matrix.json"
    if not last.exists():
        return None
    values = atomic.read_json(last)
    try:
        return Matrix.from_json(values)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{last}: not the matrix of a run ({error}); the next run makes it again"
        ) from error


def failures(results: Path, matrix: Matrix | None) -> list[Outcome]:
    """The outcome of every stage of a matrix (None: of any) that failed itself, of every problem of a
    batch that did, and of every row that left the group in which it was timed.

    Stages that were skipped because of another failure are not listed. Neither are old results of
    models or targets that the configuration no longer has, and single attempts of remedies.
    """
    paths = sorted(results.glob("*/**/status.json"))
    by_path = [(path, outcome.read_or_damaged(path)) for path in paths]
    for path in paths:
        for line in outcome.read_problem_ends_if_whole(path.with_name(OUTCOMES)).values():
            by_path += [(path, ended) for ended in (line.outcome, *_left(line))]
        by_path += [(path, ended) for ended in group.outcomes(path.parent)]
    cells = _cells(matrix) if matrix else set()

    def is_of_matrix(ended: Outcome) -> bool:
        if matrix is None:
            return True
        if ended.stage == "env":  # one of envs/, or of the toolchains
            return EntryName.read(ended.cell).toolchain in matrix.toolchains
        return (ended.stage, _folder_of(ended)) in cells

    return [
        ended
        for path, ended in by_path
        if path.parent == results / ended.stage / _folder_of(ended)
        and ended.status in outcome.FAILED
        and is_of_matrix(ended)
    ]


def _left(line: ProblemEnd) -> Iterator[Outcome]:
    """The outcomes of the rows that left the group in which a problem of a batch was timed."""
    for member, timed in line.result.get("timing", {}).get("members", {}).items():
        if timed["status"] != outcome.OK:
            left = msgspec.convert(timed, MemberTiming)
            cell = f"{member}: {line.problem}"
            yield replace(group.member_outcome(member, left, line.outcome), cell=cell)


def names(ended: Outcome) -> list[str]:
    """The names that `--cell` is matched against: the cell of an outcome, and its row."""
    kinds = [stage.kind for stage in stages.STAGES.values() if stage.folder == ended.stage]
    if not kinds or Kind.GROUP in kinds:  # of a stage that no longer exists; a row, or no row's
        return [ended.cell]
    return [ended.cell, str(Cell.parse(_folder_of(ended), *kinds).row)]


def _folder_of(ended: Outcome) -> str:
    """Return the cell in whose folder an outcome is: its own, that of a problem's batch, or that of a row's group."""
    log = Path(ended.log)
    if log.parent.name == group.MEMBERS:
        return "/".join(log.parts[2:-2])
    return ended.cell.partition(": ")[0]


def _cells(matrix: Matrix) -> set[tuple[str, str]]:
    """(stage, cell) of every stage of a matrix, as status files name them."""
    cells = {
        (stage.folder, str(cell))
        for stage in stages.STAGES.values()
        if stage.kind not in (Kind.ENV, Kind.GROUP)
        for part in matrix.matrices
        for cell in part.of_kind(stage.kind)
    }
    # What is dumped is a module, which all numbers of threads share.
    dumped = stages.STAGES["dump_iree"]
    cells |= {
        (dumped.folder, str(cell.to(dumped.kind)))
        for part in matrix.matrices
        for cell in part.of_kind(Kind.MODULE)
    }
    cells |= {("time", str(cell)) for part in matrix.matrices for cell in part.groups()}
    of_features = [row for rows in feature.rows() for row in rows.cells(matrix, Kind.IREE)]
    chains = [(*matrix.chain(row), matrix.timed(row)) for row in of_features]
    return cells | {(stage.folder, str(cell)) for chain in chains for stage, cell in chain}
