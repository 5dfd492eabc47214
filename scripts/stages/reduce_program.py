"""Reduce a program to a small part that still fails in the same way.

Two failures to compile are the same if they have the same reason and the same message without numbers and names. With
--right-flags, a part fails if it computes other values than with those flags, from the same random inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits
from scripts.features.reproduce.reduction import mismatch, search, shapes, signature
from scripts.features.reproduce.reduction.mismatch import Comparison
from scripts.features.reproduce.reduction.oracle import TIMEOUT, Compiler
from scripts.features.reproduce.reduction.program import NotReducible, Program
from scripts.features.reproduce.reduction.search import Search
from scripts.iree.tools import tool

SLOWER = 3.0
"""A part may take this many times as long as the whole program, and at least LEAST_S."""
LEAST_S = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.reduce_program", description=__doc__
    )
    parser.add_argument("--program", required=True, type=Path)
    parser.add_argument(
        "--flags", required=True, type=json.loads, help="all flags of iree-compile, as a JSON list"
    )
    parser.add_argument(
        "--right-flags",
        type=json.loads,
        help="for wrong results on a CPU: flags with which the results are right",
    )
    parser.add_argument("--device", default="local-task", help="IREE device URI of a CPU")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=300.0, metavar="SECONDS")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--out-report", required=True, type=Path)
    args = parser.parse_args()
    text, started = args.program.read_text(encoding="utf-8"), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            program = Program(text)
            reduction = Reduction(program, text, started, started + args.budget)
            if args.right_flags is None:
                compiler = Compiler(tool("iree-compile"), tuple(args.flags), Path(folder))
                found = of_failure(reduction, compiler)
            else:
                found = of_mismatch(reduction, _comparison(args, Path(folder)), args.out.parent)
        except NotReducible as error:
            exits.fail(f"{args.program}: {error}")
    args.out.write_text(found.text, encoding="utf-8")
    atomic.write_json(args.out_report, found.report)
    operations = sum(found.report["operations"].values())
    print(
        f"{operations} of {found.report['of']} operations, {found.report['seconds']:.0f} s: {found.report['operations']}"
    )


def _comparison(args: argparse.Namespace, folder: Path) -> Comparison:
    def compiler(name: str, flags: list[str]) -> Compiler:
        (folder / name).mkdir()
        return Compiler(tool("iree-compile"), tuple(flags), folder / name)

    wrong, right = compiler("wrong", args.flags), compiler("right", args.right_flags)
    return Comparison(wrong, right, args.device, args.threads)


@dataclass(frozen=True)
class Reduction:
    """A program to reduce, its text, and when the search began and ends (time.monotonic)."""

    program: Program
    text: str
    started: float
    deadline: float

    def limit_s(self, since: float) -> float:
        """The time limit of a part, if the whole program was begun at `since`."""
        return max(LEAST_S, SLOWER * (time.monotonic() - since))

    def report(self, text: str, steps: Search, said: dict[str, Any]) -> dict[str, Any]:
        """How a reduced program was found, from its text."""
        program = Program(text)
        names = (program.name(one) for one in program.operations)
        return {
            "operations": dict(search.by_count(names)),
            "of": len(self.program.operations),
            "tests": steps.tests,
            "complete": not steps.is_over,
            "seconds": round(time.monotonic() - self.started, 1),
            "cpu_seconds": round(sum(os.times()[:4]), 1),
            **said,
        }


@dataclass(frozen=True)
class Reduced:
    """A reduced program, and how it was found."""

    text: str
    report: dict[str, Any]


def of_failure(of: Reduction, compiler: Compiler) -> Reduced:
    """Reduce a program that fails to compile. Raises NotReducible."""
    program, started = of.program, time.monotonic()
    whole = compiler.run(of.text, of.deadline - started)
    if whole.failure is None:
        raise NotReducible("it compiles; there is no failure to reduce it for")
    if whole.failure.status == TIMEOUT:
        raise NotReducible(
            "it reaches the time limit; only failures that end by themselves are reduced"
        )
    limit_s, wanted = of.limit_s(started), signature.of(whole.failure)

    def fails(part: str) -> bool:
        found = compiler.run(part, min(limit_s, max(1.0, of.deadline - time.monotonic())))
        if found.failure is None:
            return False
        return wanted in map(signature.of, (found.failure, *found.others))

    steps = Search(lambda keep: fails(program.part(keep)), of.deadline)
    named = program.at_lines(signature.lines(whole.log))
    kept = search.reduce(program.operations, named, program.neighbours, steps)
    if kept is None:
        raise NotReducible("its operations, taken out of the program, do not fail in the same way")
    kept, instead = search.bypassed(
        kept,
        program.stand_in,
        lambda some, moved: not steps.is_over and fails(program.part(some, None, moved)),
    )
    results = search.fewer(
        program.results(kept, instead),
        lambda some: not steps.is_over and fails(program.part(kept, some, instead)),
    )
    text = shapes.shrink(
        program.part(kept, results, instead),
        lambda one: not steps.is_over and _is_valid(one) and fails(one),
    )
    text = _connected(text, lambda one: not steps.is_over and fails(one))
    return Reduced(text, of.report(text, steps, {"signature": list(wanted)}))


def _is_valid(text: str) -> bool:
    try:
        Program(text)
    except NotReducible:
        return False
    return True


def _connected(text: str, fails: Callable[[str], bool]) -> str:
    """The program without the operations that smaller shapes have made superfluous, such as a reshape to the same shape."""
    program = Program(text)
    kept, instead = search.bypassed(
        program.operations,
        program.stand_in,
        lambda some, moved: fails(program.part(some, None, moved)),
    )
    return program.part(kept, None, instead) if instead else text


def of_mismatch(of: Reduction, comparison: Comparison, folder: Path) -> Reduced:
    """Reduce a program that computes other values with one set of flags than with the other.

    Writes inputs and right outputs of the reduced program into `folder`. Raises NotReducible.
    """
    program, started = of.program, time.monotonic()
    computed = [one for one in program.operations if not program.is_weight(one)]
    whole = comparison.difference(program.part(computed), of.deadline - started)
    if whole is None:
        raise NotReducible(
            "no difference was found between both sets of flags, with random inputs and weights: the results are the "
            "same, or one of the two does not compile or run, or an input has a type that is not supported. If the results "
            "of the cell are wrong, the frontend may be at fault; snakemake results/operators.csv verifies each operator"
        )
    limit_s = of.limit_s(started)
    steps = Search(
        lambda keep: comparison.difference(program.part(keep), limit_s) is not None, of.deadline
    )
    steps.known[frozenset(computed)] = True
    first = search.first_failing(computed, steps)
    neighbours = {one: program.neighbours(one) & set(computed) for one in computed}
    named = () if first is None else (first,)
    kept = search.reduce(computed, named, neighbours.__getitem__, steps)
    if kept is None:
        raise NotReducible("no part of it computes other values within the time limit")
    text = shapes.shrink(
        program.part(kept),
        lambda one: not steps.is_over and comparison.difference(one, limit_s) is not None,
    )
    found = comparison.difference(text, limit_s)
    if found is None:
        raise NotReducible("its reduced program does not show the difference again")
    mismatch.save(found, folder)
    said = {
        "output": found.output,
        "largest_difference": found.largest,
        "largest_value": found.scale,
    }
    return Reduced(text, of.report(text, steps, said))


if __name__ == "__main__":
    commands.run(main)
