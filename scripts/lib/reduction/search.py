"""Finds few operations of a program that still show a failure.

It starts with the operations that the failure names and takes more and more of those around them until
the failure shows, because most failures need only what is close. Then it leaves out what it can: first
in large pieces, then one by one (Zeller and Hildebrandt 2002, "Simplifying and isolating
failure-inducing input", ddmin).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

Value = TypeVar("Value")
Test = Callable[[frozenset[int]], bool]
"""Whether a part of the program, by the positions of its operations, fails in the same way."""

STEPS = (0, 1, 2, 3, 5, 8, 13, 21, 34)
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
