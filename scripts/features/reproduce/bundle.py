"""Write a reproducer of an IREE cell: a folder, and an archive of it, that needs only IREE's wheels.

It has the program, the bare commands of IREE's tools (run.sh), the output of the failing command (log.txt) and the text
of an issue (ISSUE.md). For a cell that compiles, it also has inputs; for wrong results, weights and golden outputs too.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.core import exits, temporary
from scripts.features.reproduce import (
    bundling,
    dispatch_ratios,
    dispatch_tests,
    elsewhere,
    issue,
    owner,
)
from scripts.features.reproduce import case as cases
from scripts.features.reproduce.case import Case, NoCase
from scripts.records import results_file
from scripts.records.results_file import Record
from scripts.supervise import outcome
from scripts.supervise.diagnose import failure_signature


def main() -> None:
    parser = _parser(__doc__)
    parser.add_argument(
        "--measure",
        action="store_true",
        help="instead, write what verifies and times the cell on another machine, with IREE's runtime only",
    )
    args = parser.parse_args()
    if args.measure and not args.cell:
        parser.error("--measure needs a cell")
    if args.measure:
        _write_measuring(args)
    else:
        _write_cases(args)


def reduce() -> None:
    """Write a reproducer, as `vmfbench bundle` does, and add a program of few operations that fails in the same way."""
    parser = _parser(reduce.__doc__)
    text = "for a reduction, or for each step of --dispatches (default: 300)"
    parser.add_argument("--budget", type=float, default=300.0, metavar="SECONDS", help=text)
    parser.add_argument(
        "--dispatches",
        action="store_true",
        help="instead, write a test of each distinct dispatch of the cell",
    )
    parser.add_argument(
        "--against",
        metavar="CELL",
        help="with --dispatches: compile and test them as this cell of the same program too (other flags, another toolchain or "
        "target), and time them in turns",
    )
    args = parser.parse_args()
    if args.dispatches and not args.cell:
        parser.error("--dispatches needs a cell")
    if args.against and not args.dispatches:
        parser.error("--against needs --dispatches")
    if args.dispatches:
        _write_dispatches(args)
    else:
        _write_cases(args, args.budget)


def _write_dispatches(args: argparse.Namespace) -> None:
    """Write a test of each distinct dispatch of a cell, and print those that fail."""
    root = args.results.absolute().parent
    try:
        records = results_file.read(args.results / "results.jsonl")
        case = cases.case_of(root, cases.named(records, args.cell))
        other = cases.case_of(root, cases.named(records, args.against)) if args.against else None
        folder = _emptied(args, f"{case.name}__dispatches")
        with temporary.folder("dispatches") as scratch:
            if other:
                tests, compared = dispatch_ratios.write(
                    root, (case, other), folder, args.budget, scratch
                )
            else:
                tests, compared = dispatch_tests.write(root, case, folder, args.budget), ""
    except (NoCase, results_file.BadRecords) as error:
        exits.fail(str(error))
    print(f"{folder}: {dispatch_tests.counted(tests)}; ./run.sh tests the dispatches again")
    for test in tests:
        if test["status"] != "right":
            said = test["detail"].partition("\n")[0]
            print(f"    {test['status']}: {test['functions'][0]}: {said}")
    print(compared, end="")
    print(f"    {bundling.pack(folder)}")


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("cell", nargs="?", help="such as bert/torchmlir-stablehlo/cuda")
    chosen.add_argument(
        "--failed", action="store_true", help="one cell per group of failures with the same message"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder (default: results)"
    )
    parser.add_argument("-o", "--out", type=Path, help="default: <results>/bundles")
    parser.add_argument(
        "--weights",
        action="store_true",
        help="add the weights even if the failure does not depend on them",
    )
    return parser


def _write_measuring(args: argparse.Namespace) -> None:
    """Write what measures a cell on another machine."""
    try:
        record = cases.named(results_file.read(args.results / "results.jsonl"), args.cell)
        folder = _emptied(args, f"{args.cell.replace('/', '__')}__measure")
        elsewhere.write(args.results.absolute().parent, record, folder)
    except (NoCase, results_file.BadRecords) as error:
        exits.fail(str(error))
    print(f"{folder}: ./run.sh measures {args.cell} on another machine")
    print(f"    {bundling.pack(folder)}")


def _write_cases(args: argparse.Namespace, reduce_s: float | None = None) -> None:
    """Write the reproducers that are requested. `reduce_s`: seconds for a reduction; None: they are not reduced."""
    root = args.results.absolute().parent
    try:
        records = results_file.read(args.results / "results.jsonl")
        if args.failed:
            chosen = list(_one_per_group(root, records))
        else:
            chosen = [cases.case_of(root, cases.named(records, args.cell), of_golden=True)]
    except (NoCase, results_file.BadRecords) as error:
        exits.fail(str(error))
    for case in (owner.with_owner(root, each, records) for each in chosen):
        folder = _emptied(args, case.name)
        try:
            bundling.write(case, folder, args.weights)
        except NoCase as error:
            exits.fail(str(error))
        if reduce_s is not None:
            bundling.add_reduced(root, case, folder, reduce_s)
        print(
            f"{folder}: {case.ended.stage} {case.cell}: {case.ended.status} ({case.ended.reason or 'no failure'})"
        )
        # An issue of a wrong operator has evidence of its own.
        if case.owner and case.owner.evidence in (folder / issue.ISSUE).read_text(encoding="utf-8"):
            print(f"    likely owner: {case.owner.name}. {case.owner.evidence}")
        print(f"    {bundling.pack(folder)}")
    if not chosen:
        print("no stage of an IREE cell has failed")


def _emptied(args: argparse.Namespace, name: str) -> Path:
    """The folder of a bundle, which does not exist any more."""
    folder = (args.out or args.results / "bundles") / name
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _one_per_group(root: Path, records: Iterable[Record]) -> Iterator[Case]:
    """The first case of each group of failures that have the same message, without names and numbers."""
    seen: set[tuple[str, ...]] = set()
    for record in records:
        if not record.is_iree:
            continue
        try:
            case = cases.case_of(root, record, of_golden=True)
        except NoCase as error:
            print(f"note: {error}")
            continue
        group = (case.ended.stage, case.ended.reason, failure_signature(case.ended.detail))
        if case.ended.status in outcome.FAILED and group not in seen:
            seen.add(group)
            yield case
