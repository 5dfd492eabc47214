"""Reduce a program to a small part that still fails in the same way.

Two failures to compile are the same if they have the same reason and the same message without numbers and names. With
`right_flags`, a part fails if it computes other values than with those flags, from the same random inputs.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, checkout, commands, exits, requests
from scripts.core.requests import Folders
from scripts.iree.tools import Compiler
from scripts.tools.reproduce import mismatch, shrinking
from scripts.tools.reproduce.mismatch import Comparison
from scripts.tools.reproduce.reduced_program import REDUCED, REDUCTION, NotReducible, Program
from scripts.tools.reproduce.shrinking import Search

SLOWER = 3.0
"""A part may take this many times as long as the whole program, and at least LEAST_S."""
LEAST_S = 30.0
OPT_LEVEL = "--iree-opt-level="
OPT_LEVELS = ("O0", "O1", "O2", "O3")


@dataclass(frozen=True, kw_only=True)
class ReductionRequest:
    """`flags`: all of iree-compile. `right_flags`: for wrong results on a CPU, those with which the results are right. `device`: URI of
    IREE. `budget`: in seconds."""

    program: Path
    flags: list[str]
    right_flags: list[str] | None = None
    device: str = "local-task"
    threads: int = 1
    budget: float = 300.0


def reduce_program(args: ReductionRequest, folders: Folders) -> None:
    """Write the reduced program and a report. Exits if the program cannot be reduced."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as wrong, tempfile.TemporaryDirectory() as right:
        compiler = Compiler(tuple(args.flags), Path(wrong))
        try:
            text = args.program.read_text(encoding="utf-8")
            deadline = started + args.budget
            reduction = Reduction(text, Program(text), started, deadline, folders.results)
            if args.right_flags is None:
                reduction.of_failure(compiler)
            else:
                other = Compiler(tuple(args.right_flags), Path(right))
                comparison = Comparison(compiler, other, args.device, args.threads)
                reduction.of_mismatch(comparison)
        except NotReducible as error:
            exits.fail(f"{args.program}: {error}")


@dataclass(frozen=True)
class Reduction:
    """A program to reduce, and when the search began and ends (time.monotonic). The reduced program and a report are written into
    `folder`."""

    text: str
    program: Program
    started: float
    deadline: float
    folder: Path

    def of_failure(self, compiler: Compiler) -> None:
        """Reduce a program that fails to compile. Raises NotReducible."""
        program, started = self.program, time.monotonic()
        whole = compiler.run(self.text, self.deadline - started)
        if whole.returncode is None:
            raise NotReducible(
                "it reaches the time limit; only failures that end by themselves are reduced"
            )
        if not whole.returncode:
            raise NotReducible("it compiles; there is no failure to reduce it for")
        limit_s = self._limit_s(started)
        wanted = shrinking.kind_of(next(shrinking.diagnoses(whole)))

        def fails(text: str) -> bool:
            left_s = self.deadline - time.monotonic()
            if left_s < 0:
                return False
            return wanted in shrinking.kinds(compiler.run(text, min(limit_s, max(1.0, left_s))))

        steps = Search(lambda keep: fails(program.part(keep)), self.deadline)
        named = program.at_lines(shrinking.lines(whole.log))
        few = shrinking.reduce(program.operations, named, program.neighbours, steps)
        if few is None:
            raise NotReducible(
                "its operations, taken out of the program, do not fail in the same way"
            )
        kept, instead = shrinking.bypassed(
            few, program.stand_in, lambda some, moved: fails(program.part(some, None, moved))
        )
        results = shrinking.fewer(
            program.results(kept, instead),
            lambda some: fails(program.part(kept, some, instead)),
        )
        text = shrinking.shrink(
            program.part(kept, results, instead),
            lambda text: not steps.is_over and _is_valid(text) and fails(text),
        )
        # Smaller shapes make operations superfluous, such as a reshape to the same shape.
        small = Program(text)
        kept, instead = shrinking.bypassed(
            small.operations,
            small.stand_in,
            lambda some, moved: fails(small.part(some, None, moved)),
        )
        if instead:
            text = small.part(kept, None, instead)

        def ending(at: Compiler) -> str:
            compiled = at.run(text, limit_s)
            if not compiled.returncode:
                return "reaches the time limit" if compiled.returncode is None else "compiles"
            kinds = shrinking.kinds(compiled)
            return "fails in the same way" if wanted in kinds else f"fails with {kinds[0][1]}"

        said = {"signature": list(wanted), "opt_levels": _by_level(compiler, ending)}
        self._write(text, steps, said)

    def of_mismatch(self, comparison: Comparison) -> None:
        """Reduce a program that computes other values with one set of flags than with the other, and write inputs and outputs of the
        reduced one too. Raises NotReducible."""
        program, started = self.program, time.monotonic()
        computed = [place for place in program.operations if not program.is_weight(place)]
        if comparison.compared(program.part(computed), self.deadline - started).output is None:
            raise NotReducible(
                "no difference was found between both sets of flags, with random inputs and weights: the results are the "
                "same, or one of the two does not compile or run, or an input has a type that is not supported. If the results "
                f"of the cell are wrong, the frontend may be at fault; {checkout.run_command('results/operators.csv')} verifies each operator"
            )
        limit_s = self._limit_s(started)

        def fails(text: str) -> bool:
            return (
                time.monotonic() <= self.deadline
                and comparison.compared(text, limit_s).output is not None
            )

        steps = Search(lambda keep: fails(program.part(keep)), self.deadline)
        steps.known[frozenset(computed)] = True
        first = shrinking.first_failing(computed, steps)
        neighbours = {place: program.neighbours(place) & set(computed) for place in computed}
        named = () if first is None else (first,)
        kept = shrinking.reduce(computed, named, neighbours.__getitem__, steps)
        if kept is None:
            raise NotReducible("no part of it computes other values within the time limit")
        text = shrinking.shrink(program.part(kept), fails)
        shown = comparison.compared(text, limit_s)
        if shown.output is None:
            raise NotReducible("its reduced program does not show the difference again")
        largest, scale = mismatch.distance(shown.right[shown.output], shown.computed[shown.output])
        mismatch.save(
            self.folder,
            input=shown.inputs,
            expected=shown.right,
            computed=shown.computed,
        )

        def ending(at: Compiler) -> str:
            return dataclasses.replace(comparison, wrong=at).compared(text, limit_s).ending

        said = {
            "opt_levels": _by_level(comparison.wrong, ending),
            "output": shown.output,
            "largest_difference": largest,
            "largest_value": scale,
        }
        self._write(text, steps, said)

    def _limit_s(self, since: float) -> float:
        """The time limit of a part, if the whole program was begun at `since`."""
        return max(LEAST_S, SLOWER * (time.monotonic() - since))

    def _write(self, text: str, steps: Search, said: dict[str, Any]) -> None:
        program, of = Program(text), len(self.program.operations)
        operations = dict(Counter(map(program.name, program.operations)))
        seconds = time.monotonic() - self.started
        (self.folder / REDUCED).write_text(text, encoding="utf-8")
        report = {
            "operations": operations,
            "of": of,
            "tests": steps.tests,
            "complete": not steps.is_over,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(sum(os.times()[:4]), 1),
            **said,
        }
        atomic.write_json(self.folder / REDUCTION, report)
        print(f"{len(program.operations)} of {of} operations, {seconds:.0f} s: {operations}")


def _by_level(compiler: Compiler, ending: Callable[[Compiler], str]) -> dict[str, str]:
    """How a compiler ends at each opt level, with its other flags as they are; {} if they name none."""
    if not any(flag.startswith(OPT_LEVEL) for flag in compiler.flags):
        return {}
    endings = {}
    for level in OPT_LEVELS:
        flags = (
            f"{OPT_LEVEL}{level}" if flag.startswith(OPT_LEVEL) else flag for flag in compiler.flags
        )
        endings[level] = ending(dataclasses.replace(compiler, flags=tuple(flags)))
    return endings


def _is_valid(text: str) -> bool:
    try:
        Program(text)
    except NotReducible:
        return False
    return True


if __name__ == "__main__":
    commands.run(lambda: requests.run(ReductionRequest, reduce_program))
