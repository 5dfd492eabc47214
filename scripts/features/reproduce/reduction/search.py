"""Finds few operations of a program that still show a failure.

It starts with the operations that the failure names and takes more and more of those around them until
the failure shows, because most failures need only what is close. Then it leaves out what it can: first
in large pieces, then one by one (Zeller and Hildebrandt 2002, "Simplifying and isolating
failure-inducing input", ddmin).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Value = TypeVar("Value")
Test = Callable[[frozenset[int]], bool]
"""Whether a part of the program, by the positions of its operations, fails in the same way."""

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
            if time.monotonic() > self.deadline:
                return False
            self.tests += 1
            self.known[key] = bool(key) and self.test(key)
        return self.known[key]

    @property
    def is_over(self) -> bool:
        """Whether the time limit was reached."""
        return time.monotonic() > self.deadline


def reduce(
    everything: Collection[int],
    named: Collection[int],
    neighbours: Callable[[int], Collection[int]],
    search: Search,
) -> frozenset[int] | None:
    """Return the positions of few operations that fail in the same way; None if not even all do.

    `named`: those that the failure names, or none. `neighbours`: the operations next to one.
    """
    start = _grown(everything, named, neighbours, search) if named else None
    if start is None:
        if not search.fails(everything):
            return None
        start = frozenset(everything)
    return _minimized(start, search)


def first_failing(operations: Sequence[int], search: Search) -> int | None:
    """The last operation of the shortest beginning of a program that fails, by bisection; None if the whole
    program does not fail. It assumes that a longer beginning fails too."""
    if not search.fails(operations):
        return None
    passes, fails = 0, len(operations)
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if search.fails(operations[:middle]):
            fails = middle
        else:
            passes = middle
    return operations[fails - 1]


def _grown(
    everything: Collection[int],
    named: Collection[int],
    neighbours: Callable[[int], Collection[int]],
    search: Search,
) -> frozenset[int] | None:
    """The operations within as few steps of the named ones as show the failure; None if this is not found."""
    found, border = set(named), set(named)
    done = 0
    for steps in STEPS:
        for _ in range(steps - done):
            border = {near for one in border for near in neighbours(one)} - found
            found |= border
        done = steps
        if search.fails(found):
            return frozenset(found)
        if len(found) >= len(everything) or (not border and steps):
            return None
    return None


def _minimized(start: frozenset[int], search: Search) -> frozenset[int]:
    """Leave out pieces while the failure shows: half of the operations, then a quarter, down to single ones."""
    found, pieces = sorted(start), 2
    while len(found) > 1 and not search.is_over:
        size = max(1, len(found) // pieces)
        chunks = [found[i : i + size] for i in range(0, len(found), size)]
        smaller = _without_one(found, chunks, search)
        if smaller is not None:
            found, pieces = smaller, max(2, pieces - 1)
        elif size == 1:
            break
        else:
            pieces = min(len(found), 2 * pieces)
    return frozenset(found)


def _without_one(found: list[int], chunks: list[list[int]], search: Search) -> list[int] | None:
    """The operations of one chunk alone, or without one chunk, if that shows the failure."""
    for chunk in chunks if len(chunks) == 2 else ():
        if search.fails(chunk):
            return chunk
    for chunk in chunks:
        rest = [one for one in found if one not in set(chunk)]
        if rest and search.fails(rest):
            return rest
    return None


def bypassed(
    kept: Collection[int],
    stand_in: Callable[[int], Operand | None],
    fails: Callable[[frozenset[int], dict[int, Operand]], bool],
) -> tuple[frozenset[int], dict[int, Operand]]:
    """Leave out operations by using one of their operands in place of their result, while the failure shows.

    So the operations before and after one stay connected, which the failure may need. `stand_in`: the operand of an
    operation that can replace its result. Returns what is kept, and the operands in place of what is not.
    """
    found, instead = frozenset(kept), dict[int, Operand]()
    for place in sorted(kept, reverse=True):
        operand = stand_in(place)
        if operand is None or operand[0] not in found:
            continue  # without its operand, it would be an argument: such parts have been tried
        rest, moved = found - {place}, instead | {place: operand}
        if fails(rest, moved):
            found, instead = rest, moved
    return found, instead


def fewer(values: Iterable[Value], needed: Callable[[list[Value]], bool]) -> list[Value]:
    """Leave out single values while `needed` is true of the rest; at least one stays."""
    found = list(values)
    for one in list(found):
        rest = [other for other in found if other != one]
        if rest and needed(rest):
            found = rest
    return found


def by_count(names: Iterable[str]) -> Mapping[str, int]:
    """How often each name occurs, in the order of their first occurrence."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts
