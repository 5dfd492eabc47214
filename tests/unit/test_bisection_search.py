"""The search of a bisection: the first bad release, in few trials, also past releases that cannot be judged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.features.compare.bisection.question import Boundary, Side, search


@given(st.integers(2, 200), st.data())
def test_the_first_bad_one_is_found_in_about_log2_trials(count, data):
    first = data.draw(st.integers(1, count - 1))
    asked = []

    def side(number: int) -> Side:
        asked.append(number)
        return Side.BAD if number >= first else Side.GOOD

    assert search(count, side) == Boundary(first - 1, first, ())
    assert len(asked) == len(set(asked)) <= math.ceil(math.log2(count))
    assert not {0, count - 1} & set(asked)


@given(st.lists(st.sampled_from(list(Side)), min_size=0, max_size=30))
def test_any_sides_end_at_a_change_from_good_to_bad(between):
    sides = [Side.GOOD, *between, Side.BAD]
    found = search(len(sides), sides.__getitem__)
    assert sides[found.last_good] is Side.GOOD
    assert sides[found.first_bad] is Side.BAD
    assert found.between == tuple(range(found.last_good + 1, found.first_bad))
    assert all(sides[one] is Side.NEITHER for one in found.between)


@pytest.mark.parametrize("count", [2, 3, 9])
def test_what_cannot_be_judged_is_named(count):
    found = search(count, lambda _: Side.NEITHER)
    assert found == Boundary(0, count - 1, tuple(range(1, count - 1)))
