"""The dispatches of a cell, compiled as by another cell of the same model: which differ in their results, and in their time."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scripts.core import checkout
from scripts.features.reproduce import case as cases
from scripts.features.reproduce import dispatch_tests
from scripts.features.reproduce.case import COMPILE, Case, NoCase
from scripts.features.reproduce.reduction import mismatch
from scripts.features.reproduce.reduction.dispatches import PROGRAM, RIGHT
from scripts.iree import benchmark
from scripts.iree.backends import allocator_flags
from scripts.iree.session import runtime_flags
from scripts.records import markdown
from scripts.records.wording import milliseconds
from scripts.supervise.members import Member, failed_member, time_in_turns, unfit_control
from scripts.timing import ratios
from scripts.timing.ratios import Decision, Difference, decide
from scripts.timing.turns import Rule

RULE = Rule(budget_s=1.0, generations=ratios.LEAST)
"""How each dispatch is timed."""
SIDES, TABLE = ("before", "after"), "comparison.md"
RATE, MATTERS = 0.05, 1.05
"""The rate of false discoveries, and the ratio from which a difference matters."""


@dataclass(frozen=True)
class Side:
    """A cell, the results of its tests by the names of their folders, and the folder of its modules."""

    case: Case
    root: Path
    results: Mapping[str, Mapping[str, Any]]
    modules: Path


def write(
    root: Path, pair: tuple[Case, Case], folder: Path, budget_s: float, scratch: Path
) -> tuple[list[dict[str, Any]], str]:
    """Write the tests of the first cell as dispatch_tests.write does, test and time them as both cells, and add TABLE to the
    folder; return the tests and the table. `budget_s`: of each step. Raises NoCase."""
    own, other = pair
    if own.files[PROGRAM].read_bytes() != other.files[PROGRAM].read_bytes():
        raise NoCase(
            f"{own.cell} and {other.cell} have different programs, so different dispatches"
        )
    modules = [scratch / name for name in SIDES]
    for place in modules:
        place.mkdir()
    tests = dispatch_tests.write(root, own, folder, budget_s, modules[0])
    results = {test["functions"][0]: test for test in tests}
    others = dispatch_tests.run(root, other, folder, budget_s, modules[1])
    sides = Side(own, root, results, modules[0]), Side(other, root, others, modules[1])
    timed, left = measure(folder, sides, time.monotonic() + budget_s)
    text = table(sides, timed, left)
    (folder / TABLE).write_text(text, encoding="utf-8")
    return tests, text


def table(sides: tuple[Side, Side], timed: Sequence[Timed], left: Mapping[str, str]) -> str:
    """The dispatches as Markdown, those that have become slower by most milliseconds first."""
    own, other = sides
    slowest_first = sorted(timed, key=lambda each: each.before_ms - each.after_ms)
    rows = [
        (
            f"`{each.name}`",
            str(len(own.results[each.name]["functions"])),
            milliseconds(each.before_ms),
            milliseconds(each.after_ms),
            f"{each.decision.ratio:.3f} ({each.decision.low:.3f} to {each.decision.high:.3f})",
            each.decision.verdict,
        )
        for each in slowest_first
    ]
    head = ("dispatch", "functions", "before, ms", "after, ms", "ratio", "verdict")
    lines = [
        f"{own.case.cell} → {other.case.cell}: {dispatch_tests.counted([*own.results.values()])} → "
        f"{dispatch_tests.counted([*other.results.values()])}\n",
        markdown.table(head, rows, (1, 2, 3, 4)) if rows else "",
        *(
            f"wrong in {other.case.cell}: `{name}`: {said['detail']}\n"
            for name, said in other.results.items()
            if said["status"] == "wrong"
        ),
        *(f"not timed: `{name}`: {why}\n" for name, why in left.items()),
    ]
    return "\n".join(filter(None, lines))


@dataclass(frozen=True)
class Timed:
    """A dispatch in both cells, in milliseconds per call."""

    name: str
    before_ms: float
    after_ms: float
    decision: Decision


def measure(
    folder: Path, sides: tuple[Side, Side], deadline: float
) -> tuple[list[Timed], dict[str, str]]:
    """Time the dispatches that are right in both cells, each in turns; return them, and by name why others were not timed.

    `deadline`: by time.monotonic(), after which no dispatch is begun.
    """
    timed: list[tuple[str, float, float, Difference]] = []
    left: dict[str, str] = {}
    names = [name for name, said in sides[0].results.items() if said["status"] == RIGHT]
    for name in names:
        if sides[1].results[name]["status"] != RIGHT:
            left[name] = f"in the other cell it is {sides[1].results[name]['status']}"
        elif time.monotonic() > deadline:
            left[name] = "the time was over (--budget)"
        else:
            try:
                timed.append((name, *_in_turns(folder / name, sides)))
            except NotTimed as error:
                left[name] = str(error)
    decisions = decide([difference for *_, difference in timed], RATE, MATTERS)
    return [
        Timed(name, before_ms, after_ms, decision)
        for (name, before_ms, after_ms, _), decision in zip(timed, decisions, strict=True)
    ], left


class NotTimed(Exception):
    """A dispatch was not timed. Says why."""


def _in_turns(test: Path, sides: Sequence[Side]) -> tuple[float, float, Difference]:
    """The milliseconds of a dispatch in both cells, and the logarithm of their ratio. Raises NotTimed."""
    members = [_member(name, side, test) for name, side in zip(SIDES, sides, strict=True)]
    timing = time_in_turns(members, RULE)
    if why := failed_member(timing):
        raise NotTimed(why)
    before, after = (timing.members[member.name].values_ms for member in members)
    difference = ratios.paired(after, before)
    if difference is None:
        raise NotTimed(f"{len(after)} generations; an interval needs {ratios.LEAST}")
    if why := unfit_control(timing):
        raise NotTimed(why)
    return math.exp(ratios.log_mean(before)), math.exp(ratios.log_mean(after)), difference


def _member(name: str, side: Side, test: Path) -> Member:
    """The process that times the module of a dispatch, with the runtime of its cell's compiler."""
    case, inputs = side.case, mismatch.saved(test, "input")
    compilation = cases.recorded(side.root, COMPILE, case.module)
    raw = side.modules / f"{test.name}-inputs"
    command = [
        *(str(side.root / compilation.request.python), "-m", "scripts.stages.time_module"),
        *(f"--module={side.modules / test.name}.vmfb", "--function=main"),
        *(f"--device={case.device}", *runtime_flags(case.device, case.threads or 1)),
        *allocator_flags(case.device),
        *benchmark.write_arrays(raw, inputs, [_type(array) for array in inputs]),
    ]
    log = side.modules / f"{test.name}-{name}.txt"
    return Member(
        name, tuple(command), log, forked=False, env=checkout.variables(), folder=side.root
    )


def _type(array: np.ndarray) -> str:
    """The type of an array as IREE's tools write it: `2x3xf32`."""
    kind = "i" if array.dtype.kind in "ib" else array.dtype.kind
    return "x".join([*map(str, array.shape), f"{kind}{8 * array.dtype.itemsize}"])
