"""Write a reproducer of an IREE cell: a folder, and an archive of it, that needs only IREE's wheels.

It has the program, the bare commands of IREE's tools (run.sh), the output of the failing command (log.txt) and the text
of an issue (ISSUE.md). For a cell that compiles, it also has inputs; for wrong results, weights and golden outputs too.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.core import exits
from scripts.features.reproduce import bundling, elsewhere
from scripts.features.reproduce import case as cases
from scripts.features.reproduce.case import Case, NoCase
from scripts.features.reproduce.reduction.failures import normalised
from scripts.records import results_file
from scripts.records.results_file import Record
from scripts.supervise import outcome


def main() -> None:
    args = _arguments()
    root = args.results.absolute().parent
    out = args.out or args.results / "bundles"
    try:
        records = results_file.read(args.results / "results.jsonl")
        if args.measure:
            record = cases.named(records, args.cell)
            folder = out / f"{args.cell.replace('/', '__')}__measure"
            shutil.rmtree(folder, ignore_errors=True)
            elsewhere.write(root, record, folder)
            print(f"{folder}: ./run.sh measures {args.cell} on another machine")
            print(f"    {bundling.pack(folder)}")
            return
        chosen = (
            list(_one_per_group(root, records))
            if args.failed
            else [cases.of(root, cases.named(records, args.cell))]
        )
    except (NoCase, results_file.BadRecords) as error:
        exits.fail(str(error))
    for case in chosen:
        folder = out / case.name
        shutil.rmtree(folder, ignore_errors=True)
        bundling.write(case, folder, args.weights)
        if args.reduce:
            bundling.add_reduced(root, case, folder, args.budget)
        print(
            f"{folder}: {case.ended.stage} {case.cell}: {case.ended.status} ({case.ended.reason or 'no failure'})"
        )
        print(f"    {bundling.pack(folder)}")
    if not chosen:
        print("no stage of an IREE cell has failed")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
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
    parser.add_argument(
        "--measure",
        action="store_true",
        help="instead, write what verifies and times the cell on another machine, with IREE's runtime only",
    )
    parser.add_argument(
        "--reduce",
        action="store_true",
        help="add a program of few operations that fails in the same way",
    )
    time = "time for a reduction (default: 300)"
    parser.add_argument("--budget", type=float, default=300.0, metavar="SECONDS", help=time)
    args = parser.parse_args()
    if args.measure and not args.cell:
        parser.error("--measure needs a cell")
    return args


def _one_per_group(root: Path, records: Iterable[Record]) -> Iterator[Case]:
    """The first case of each group of failures that have the same message, without names and numbers."""
    seen: set[tuple[str, ...]] = set()
    for record in records:
        if not record.is_iree:
            continue
        try:
            case = cases.of(root, record)
        except NoCase as error:
            print(f"note: {error}")
            continue
        group = (case.ended.stage, case.ended.reason, normalised(case.ended.detail))
        if case.ended.status in outcome.FAILED and group not in seen:
            seen.add(group)
            yield case
