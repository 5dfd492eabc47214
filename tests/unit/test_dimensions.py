"""Dynamic dimensions: which sizes are allowed, how a dimension follows from an option, and what is wrong with a call."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scripts.core.dimensions import (
    Dimension,
    NotOneOption,
    Sizes,
    dimension_of,
    opened,
    problems,
)
from scripts.core.tensors import TensorType

small = st.integers(1, 12)
sizes = st.builds(
    lambda values, least, span, multiple: Sizes(tuple(values), least, least + span, multiple),
    st.lists(small, min_size=1, max_size=4, unique=True),
    small,
    st.integers(0, 40),
    small,
)


@given(sizes, st.integers(-5, 80))
def test_a_size_is_allowed_if_it_is_a_multiple_in_the_range(of, size):
    assert of.allows(size) == (of.min <= size <= of.max and size % of.multiple_of == 0)


@given(sizes)
def test_two_different_allowed_sizes_are_tried_where_there_are_two(of):
    allowed = [size for size in range(1, 60) if of.allows(size)]
    found = of.probes()
    assert len(set(found)) == len(found) == min(2, len(allowed))
    assert all(map(of.allows, found))
    if any(size > of.multiple_of for size in allowed):
        assert found[0] > of.multiple_of, "torch.export takes a symbol of value 1 for a constant"


@given(sizes, st.integers(1, 4), st.integers(-3, 3), st.integers(0, 200))
def test_a_call_is_right_exactly_if_its_size_is_that_of_an_allowed_value(of, factor, offset, size):
    one = Dimension(0, "x", 0, "n", factor, offset, of.min, of.max, of.multiple_of)
    values = [value for value in range(1, 80) if of.allows(value)]
    right = size in [factor * value + offset for value in values]
    assert list(problems([one], [(size,)])) == [] or not right
    assert right or list(problems([one], [(size,)]))


@given(small, small, st.integers(1, 4), st.integers(-3, 3))
def test_inputs_that_share_a_dimension_need_the_same_value(first, second, factor, offset):
    both = [Dimension(0, "x", 0, "n"), Dimension(1, "y", 1, "n", factor, offset)]
    assume(factor * second + offset > 0)
    said = list(problems(both, [(first,), (3, factor * second + offset)]))
    assert bool(said) == (first != second)
    if said:
        assert said == [
            f"dimension 1 of input y: found size {factor * second + offset}, expected {factor * first + offset}, because "
            f"dimension 0 of input x has size {first} (n {first})"
        ]


def test_a_message_names_the_input_its_size_and_what_was_expected():
    one = Dimension(0, "['ids']", 1, "seq_len", 2, 1, min=8, max=64, multiple_of=8)
    expected = "expected seq_len of 8 to 64, multiples of 8"
    place = "dimension 1 of input ['ids']: found size"
    assert list(problems([one], [(1, 17)])) == []
    assert list(problems([one], [(1, 16)])) == [f"{place} 16, expected 2 * seq_len + 1"]
    assert list(problems([one], [(1, 25)])) == [f"{place} 25, which is seq_len 12; {expected}"]
    assert list(problems([one], [(1, 145)])) == [f"{place} 145, which is seq_len 72; {expected}"]
    plain = Dimension(3, "", 0, "batch_size", max=None)
    assert list(problems([plain], [(), (), (), (0,)])) == [
        "dimension 0 of input 3: found size 0; expected batch_size of 1 or more"
    ]


@given(small, small, st.integers(1, 5), st.integers(0, 6))
def test_a_dimension_is_a_multiple_of_its_option_or_the_option_and_a_constant(
    value, other, factor, offset
):
    assume(value != other and (factor == 1 or offset == 0))
    seen = {value: factor * value + offset, other: factor * other + offset}
    found = dimension_of(0, "x", 1, "n", Sizes((value, other)), seen)
    assert found == Dimension(0, "x", 1, "n", factor, offset)
    assert [found.value_of(size) for size in seen.values()] == [value, other]


def test_a_dimension_that_does_not_change_is_none_of_the_option():
    assert dimension_of(0, "x", 1, "n", Sizes((2, 4)), {2: 3, 4: 3}) is None


@pytest.mark.parametrize(
    "seen", [{2: 3, 5: 4}, {2: 8, 4: 6}, {4: 6, 2: 9}, {2: 5, 3: 7}, {7: 49, 2: 4}]
)
def test_a_size_that_follows_in_another_way_is_an_error_that_names_the_input(seen):
    with pytest.raises(NotOneOption, match=r"dimension 1 of input x has size \d+ with n \d, and \d with n \d; expected a multiple of n"):  # fmt: skip
        dimension_of(0, "x", 1, "n", Sizes(tuple(seen)), seen)


def test_open_dimensions_are_question_marks_in_the_type_of_a_program():
    kinds = [TensorType("x", (8, 16), "float32"), TensorType("y", (8,), "int64")]
    found = opened(kinds, [Dimension(0, "x", 0, "n"), Dimension(1, "y", 0, "n")])
    assert [kind.mlir for kind in found] == ["tensor<?x16xf32>", "tensor<?xi64>"]
    assert [kind.mlir for kind in kinds] == ["tensor<8x16xf32>", "tensor<8xi64>"]
    assert opened(kinds, []) == kinds


def test_sizes_are_read_from_an_entry():
    assert Sizes.of_entry({"values": [1, 8]}) == Sizes((1, 8), 1, None, 1)
    assert Sizes.of_entry({"values": [8], "min": 8, "max": 64, "multiple_of": 8}).allows(64)
    assert math.inf not in Sizes((1,)).probes()
