"""Finds few operations of a program that still show a failure, small shapes for them, and whether a failure is still the same.

The search starts with the operations that the failure names and takes more and more of those around them until
the failure shows, because most failures need only what is close. Then it leaves out what it can: first
in large pieces, then one by one (Zeller and Hildebrandt 2002, "Simplifying and isolating
failure-inducing input", ddmin).
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from scripts.iree.tools import Compiled
from scripts.supervise.diagnose import Diagnosis, diagnose, failure_signature

Value = TypeVar("Value")
Test = Callable[[frozenset[int]], bool]
"""Whether a part of the program, by the positions of its operations, fails in the same way."""
Neighbours = Callable[[int], Collection[int]]
"""The operations next to one."""
Operand = tuple[int, int]
"""The position of an operation, and the number of its result."""

STEPS = (0, 1, 2, 3, 4, 5, 6, 8, 11, 16, 24, 34)
"""How far from the named operations others are taken."""


@dataclass
class Search:
    """A search with a time limit. `tests`: how many parts were tested; `known`: their results."""

    test: Test
    deadline: float
    tests: int = 0
    known: dict[frozenset[int], bool] = field(default_factory=dict)

    def fails(self, part: Collection[int]) -> bool:
        """Whether a part fails in the same way. After the deadline, no part does."""
        key = frozenset(part)
        if key not in self.known:
            if self.is_over:
                return False
            self.tests += 1
            self.known[key] = bool(key) and self.test(key)
        return self.known[key]

    @property
    def is_over(self) -> bool:
        """Whether the time limit was reached."""
        return time.monotonic() > self.deadline


def reduce(
    everything: Collection[int], named: Collection[int], neighbours: Neighbours, search: Search
) -> frozenset[int] | None:
    """Return the positions of few operations that fail in the same way; None if not even all do.

    `named`: those that the failure names, or none.
    """
    start = _grown(everything, named, neighbours, search) if named else None
    if start is None:
        if not search.fails(everything):
            return None
        start = set(everything)
    return _minimized(sorted(start), search)


def _grown(
    everything: Collection[int], named: Collection[int], neighbours: Neighbours, search: Search
) -> set[int] | None:
    """The operations within as few steps of the named ones as show the failure; None if this is not found."""
    near, border, done = set(named), set(named), 0
    for steps in STEPS:
        for _ in range(steps - done):
            border = {other for place in border for other in neighbours(place)} - near
            near |= border
        done = steps
        if search.fails(near):
            return near
        if len(near) >= len(everything) or (not border and steps):
            return None
    return None


def _minimized(kept: list[int], search: Search) -> frozenset[int]:
    """Leave out pieces while the failure shows: half of the operations, then a quarter, down to single ones."""
    pieces = 2
    while len(kept) > 1 and not search.is_over:
        size = max(1, len(kept) // pieces)
        smaller = _without_one(kept, [kept[i : i + size] for i in range(0, len(kept), size)], search)  # fmt: skip
        if smaller is not None:
            kept, pieces = smaller, max(2, pieces - 1)
        elif size == 1:
            break
        else:
            pieces = min(len(kept), 2 * pieces)
    return frozenset(kept)


def _without_one(kept: list[int], chunks: list[list[int]], search: Search) -> list[int] | None:
    """The operations of one of two chunks alone, or without one chunk, if that shows the failure."""
    for chunk in chunks if len(chunks) == 2 else ():
        if search.fails(chunk):
            return chunk
    for chunk in chunks:
        rest = [place for place in kept if place not in set(chunk)]
        if rest and search.fails(rest):
            return rest
    return None


def first_failing(operations: Sequence[int], search: Search) -> int | None:
    """The last operation of the shortest beginning of a program that fails, by bisection; None if the whole
    program does not fail. It assumes that a longer beginning fails too."""
    if not search.fails(operations):
        return None
    counts = range(1, len(operations))
    place = bisect_left(counts, True, key=lambda count: search.fails(operations[:count]))
    return operations[place]


def bypassed(
    kept: Collection[int],
    stand_in: Callable[[int], Operand | None],
    fails: Callable[[frozenset[int], dict[int, Operand]], bool],
) -> tuple[frozenset[int], dict[int, Operand]]:
    """Leave out operations by using one of their operands in place of their result, while the failure shows.

    So the operations before and after one stay connected, which the failure may need. `stand_in`: the operand of an
    operation that can replace its result. Returns what is kept, and the operands in place of what is not.
    """
    left, instead = frozenset(kept), dict[int, Operand]()
    for place in sorted(kept, reverse=True):
        operand = stand_in(place)
        if operand is None or operand[0] not in left:
            continue  # without its operand, it would be an argument: such parts have been tried
        rest, moved = left - {place}, instead | {place: operand}
        if fails(rest, moved):
            left, instead = rest, moved
    return left, instead


def fewer(values: Iterable[Value], needed: Callable[[list[Value]], bool]) -> list[Value]:
    """Leave out single values while `needed` is true of the rest; at least one stays."""
    kept = list(values)
    for value in list(kept):
        rest = [other for other in kept if other != value]
        if rest and needed(rest):
            kept = rest
    return kept


_SHAPE = re.compile(r"(?<=tensor<)(?:\d+x)+|(?<=vtensor<\[)[\d,]+(?=\])")
_NUMBER = re.compile(r"\d+")


def shrink(text: str, fails: Callable[[str], bool]) -> str:
    """Return a program with the smallest sizes that were found; `fails`: whether one fails in the same way.

    Every size is tried once, the largest first: as 1, 2, 4 and so on. All dimensions of one size shrink together. A size is
    replaced in all types of the text, and if that is not a valid program, also wherever the number stands by itself, as sizes
    are constants and attributes too. The compiler says whether the result is valid: an invalid program fails in another way.
    """
    for size in sizes(text):
        text = next((smaller for smaller in _smaller(text, size) if fails(smaller)), text)
    return text


def sizes(text: str) -> list[int]:
    """The sizes above 1 in the types of a program, the largest first."""
    numbers = {int(n) for shape in _SHAPE.findall(text) for n in _NUMBER.findall(shape)}
    return sorted(numbers - {0, 1}, reverse=True)


def _smaller(text: str, size: int) -> Iterator[str]:
    number = re.compile(rf"(?<!\d){size}(?!\d)")
    wanted = 1
    while wanted < size:
        in_types = _SHAPE.sub(partial(_replaced, number, str(wanted)), text)
        yield in_types
        everywhere = re.sub(rf"(?<![\w.%#-]){size}(?![\w.])", str(wanted), in_types)
        if everywhere != in_types:
            yield everywhere
        wanted *= 2


def _replaced(number: re.Pattern, wanted: str, shape: re.Match) -> str:
    return number.sub(wanted, shape[0])


# Whether two failures are the same: a part of a program has other shapes and names than the whole one, so these do not count.
# The words of the message do: a reduction must not drift to another failure.

_LOCATED = re.compile(r"\.mlir:(\d+):\d+: ")
_ERROR = re.compile(r":\d+:\d+: error: ")


def diagnoses(compiled: Compiled) -> Iterator[Diagnosis]:
    """The failure of a compilation that did not reach its time limit, then the further errors of a compiler that did not crash.

    Dispatches are compiled in parallel, so which error is the first one may differ from run to run.
    """
    if not compiled.returncode:
        return
    yield diagnose(compiled.returncode, compiled.log)
    lines = compiled.log.splitlines()
    places = [place for place, line in enumerate(lines) if _ERROR.search(line)]
    for place in places[1:] if compiled.returncode > 0 else ():
        yield diagnose(compiled.returncode, "\n".join(lines[place:]))


def kind_of(failure: Diagnosis) -> tuple[str, str, str]:
    """What failures must have in common to be the same."""
    return failure.status, failure.reason, failure_signature(failure.detail)


def kinds(compiled: Compiled) -> list[tuple[str, str, str]]:
    """The kinds of the failures of a compilation, without those of one that reached its time limit."""
    return [kind_of(failure) for failure in diagnoses(compiled)]


def lines(log: str) -> set[int]:
    """The lines of the program that the diagnostics of a compiler name."""
    return {int(line) for line in _LOCATED.findall(log)}
