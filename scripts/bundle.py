"""Write a reproducer of an IREE cell: a folder, and an archive of it, that needs only IREE's wheels.

It has the program, the bare commands of IREE's tools (run.sh), the output of the failing command (log.txt) and the text
of an issue (ISSUE.md). For a cell that compiles, it also has inputs; for wrong results, weights and golden outputs too.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.lib.bundling import case as cases
from scripts.lib.bundling import elsewhere, recorded, writing
from scripts.lib.bundling.case import COMPILE, Case, NoCase
from scripts.lib.config import threads, training
from scripts.lib.core import exits
from scripts.lib.report import results_file
from scripts.lib.report.results_file import Record
from scripts.lib.supervision import outcome

REDUCED = "reduced.mlir"
EXPORT = "export"
WRONG, SLOW = "scripts.find_wrong_operator", "scripts.find_slow_operators"
"""Commands that search in the captured graph of a model."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.bundle", description=__doc__)
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
        help="add a program of few operations that fails in the same way, or, of a cell that is ok, that is slow",
    )
    parser.add_argument(
        "--slower",
        type=float,
        default=1.5,
        metavar="FACTOR",
        help="for --reduce of a cell that is ok: slower than eager mode by this factor (default: 1.5)",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="time for a reduction (default: 300)",
    )
    args = parser.parse_args()
    if args.measure and not args.cell:
        parser.error("--measure needs a cell")
    root = args.results.absolute().parent
    out = args.out or args.results / "bundles"
    try:
        records = results_file.read(args.results / "results.jsonl")
        if args.measure:
            measured_elsewhere(root, _record(records, args.cell), out)
            return
        found = (
            list(_groups(root, records))
            if args.failed
            else [cases.of(root, _record(records, args.cell))]
        )
    except (NoCase, results_file.BadRecords) as error:
        exits.fail(str(error))
    for case in found:
        folder = out / case.name
        shutil.rmtree(folder, ignore_errors=True)
        writing.write(case, folder, args.weights)
        if args.reduce:
            reduce(root, case, folder, args.budget, args.slower)
        print(f"{folder}: {case.stage} {case.cell}: {case.status} ({case.reason or 'no failure'})")
        print(f"    {writing.pack(folder)}")
    if not found:
        print("no stage of an IREE cell has failed")


def measured_elsewhere(root: Path, record: Record, out: Path) -> None:
    """Write the bundle that measures a cell on another machine. Raises NoCase."""
    folder = out / f"{record['cell'].replace('/', '__')}__measure"
    shutil.rmtree(folder, ignore_errors=True)
    elsewhere.write(root, record, folder)
    print(f"{folder}: ./run.sh measures {record['cell']} on another machine")
    print(f"    {writing.pack(folder)}")


def _record(records: Iterable[Record], cell: str) -> Record:
    """The record of a cell, by its name. Raises NoCase."""
    by_name = {record["cell"]: record for record in records}
    if cell not in by_name:
        raise NoCase(
            f"no row {cell!r} in results.jsonl; the rows are {', '.join(list(by_name)[:5])} …"
        )
    return by_name[cell]


def _groups(root: Path, records: Iterable[Record]) -> Iterator[Case]:
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
        if case.status in outcome.FAILED and (group := cases.group(case)) not in seen:
            seen.add(group)
            yield case


def reduce(root: Path, case: Case, folder: Path, budget_s: float, factor: float) -> None:
    """Add the reduced program of a case to its bundle, and to the issue.

    Of a case without a failure, these are operators that are slower than eager mode by `factor`. Of wrong results, the frontend
    is examined first.
    """
    budget = ("--budget", f"{budget_s:g}")
    if case.status == outcome.OK and case.threads:
        words = ("--flags", json.dumps(case.flags), "--threads", str(case.threads))
        _graph_search(root, case, folder, SLOW, *words, "--factor", f"{factor:g}", *budget)
        return
    if case.reason == cases.WRONG_RESULT and _graph_search(root, case, folder, WRONG, *budget):
        return
    if (mode := _mode(case)) is None:
        print(
            f"note: {case.cell}: only failures to compile, and wrong results on a CPU, are reduced; "
            f"this is {case.stage}: {case.status} ({case.reason})"
        )
        return
    place = folder.absolute()
    out, report = place / REDUCED, place / "reduction.json"
    options = [
        *("--program", str(place / "program.mlir"), "--flags", json.dumps(case.flags)),
        *("--budget", f"{budget_s:g}", "--out", str(out), "--out-report", str(report), *mode),
    ]
    try:
        # By the compiler of the cell, which may be that of a toolchain.
        ended = recorded.of(root, COMPILE, threads.shared(case.cell)).run(
            "scripts.reduce_program", options
        )
    except NoCase as error:
        print(f"note: {case.cell}: {error}")
        return
    if ended != 0:
        print(f"note: {case.cell} was not reduced; the messages above say why")
        return
    log = (folder / "log.txt").read_text(encoding="utf-8")
    writing.write_issue(case, folder, log, out.read_text(encoding="utf-8"))


def _graph_search(root: Path, case: Case, folder: Path, module: str, *words: str) -> bool:
    """Run a search in the captured graph of a case, in the environment of its frontend; return whether it found something,
    and wrote it."""
    try:
        if training.test(case.exported.rpartition("/")[2]) == training.TRAIN:
            raise NoCase(
                "operators are looked for in graphs of forward passes, not of training steps"
            )
        export = recorded.of(root, EXPORT, case.exported)
        model = ("--name", "--model-file", "--options", "--load-threads")
        options = export.words(*model, "--exporter", "--exporter-options")
        return export.run(module, [*options, *words, "--out", str(folder.absolute())]) == 0
    except NoCase as error:
        print(f"note: {case.cell}: {error}")
        return False


def _mode(case: Case) -> list[str] | None:
    """Options of scripts.reduce_program for the kind of a failure; None if it cannot be reduced."""
    if case.stage == COMPILE and case.status in outcome.FAILED:
        return []
    if case.reason == cases.WRONG_RESULT and case.threads:
        return [
            *("--right-flags", json.dumps(case.right_flags)),
            *("--device", case.device, "--threads", str(case.threads)),
        ]
    return None


if __name__ == "__main__":
    main()
