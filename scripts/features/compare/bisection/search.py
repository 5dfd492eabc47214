"""The search itself: the first of several candidates in order that is bad, as `git bisect` finds it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass


class Side(enum.StrEnum):
    """What a candidate is: like the good end, like the bad end, or neither."""

    GOOD = "good"
    BAD = "bad"
    NEITHER = "neither"


@dataclass(frozen=True)
class Boundary:
    """The last good candidate, the first bad one, and those between them that are neither."""

    last_good: int
    first_bad: int
    between: tuple[int, ...]


def search(count: int, side_of: Callable[[int], Side]) -> Boundary:
    """Return where candidates 0 (known to be good) to count - 1 (known to be bad) change from good to bad.

    `side_of` is asked at most once per candidate, and for about log2(count) of them. If the sides change several times, one of the
    changes from good to bad is found. A candidate that is neither is passed over, and the one next to it is tried.
    """
    good, bad, neither = 0, count - 1, set[int]()
    while True:
        open_ = [one for one in range(good + 1, bad) if one not in neither]
        if not open_:
            return Boundary(good, bad, tuple(one for one in sorted(neither) if good < one < bad))
        middle = (good + bad) / 2
        tried = min(open_, key=lambda one: abs(one - middle))
        side = side_of(tried)
        if side is Side.GOOD:
            good = tried
        elif side is Side.BAD:
            bad = tried
        else:
            neither.add(tried)
