"""benchmarks.alternation: how its records are analysed."""

import math

import numpy as np
import pytest

from benchmarks import alternation
from benchmarks.alternation import BASE, EVERY

PERCENTS = {"A1": 0, "A2": 0, "A3": 0, "B10": 10}


def group(noise: float, seed: int, generations: int = 8) -> dict:
    """A record of a group in which a program is as slow as its name says, but for noise."""
    draw = np.random.default_rng(seed)
    values = {
        name: [(1 + percent / 100) * math.exp(noise * draw.standard_normal()) for _ in range(generations)]
        for name, percent in PERCENTS.items()
    }  # fmt: skip
    return {"kind": "errors", "condition": "1", "percents": PERCENTS, "values_ms": values}


def lines(table) -> list[tuple[str, ...]]:
    """Return the cells of a table, line by line."""
    return list(zip(*(column.cells for column in table.columns), strict=True))


@pytest.mark.parametrize(("percent", "which", "count"), [(0, EVERY, 3), (0, BASE, 2), (10, EVERY, 3), (10, BASE, 1)])  # fmt: skip
def test_equal_programs_are_compared_in_pairs_and_slower_ones_with_equal_ones(percent, which, count):  # fmt: skip
    found = alternation.differences(group(1e-6, 1), percent, which)
    assert len(found) == count
    assert all(one.value == pytest.approx(math.log(1 + percent / 100), abs=1e-4) for one in found)


def test_slower_programs_are_found_and_equal_ones_are_not():
    table = alternation.errors_table([group(0.003, seed) for seed in range(10, 15)])
    equal, _, slower, with_base = lines(table)
    assert equal[:7] == ("1", "equal, all pairs", "5", "8", "15", "0", "0.0%")
    assert equal[7] == "18.1%"  # 1 - 0.05 ** (1 / 15): Clopper and Pearson for none of 15
    assert slower[4:7] == ("15", "15", "100.0%")
    assert with_base[4:6] == ("5", "5")
    assert with_base[7] == "54.9%"  # 0.05 ** (1 / 5)
    assert with_base[-1].startswith(("9.9%", "10.0%", "10.1%"))


def test_what_an_interval_cannot_be_of_is_not_compared():
    [equal, *_] = lines(alternation.errors_table([group(0.003, 1, generations=2)]))
    assert equal[4:] == ("0", *["–"] * 6)


def test_comparisons_of_equal_programs_count_alarms_in_turns_and_by_anchor():
    groups = [group(0.003, seed) for seed in range(10, 14)]
    by_turns, by_anchor = lines(alternation.comparisons_table(groups))
    # A pair of each group's three equal programs; two pairs of groups, with two programs and their anchor.
    assert by_turns[1:5] == ("in turns", "4", "0", "0")
    assert by_anchor[1:5] == ("by anchor", "4", "0", "0")
    groups[1]["values_ms"]["A1"] = [1.2 * value for value in groups[1]["values_ms"]["A1"]]
    by_turns, by_anchor = lines(alternation.comparisons_table(groups))
    assert by_turns[3:5] == ("1", "0"), "the second one is faster"
    assert by_anchor[3:5] == ("1", "1")


def test_a_program_has_as_many_products_as_it_is_slow():
    for operators in (100, 105):
        text = alternation.program(64, operators)
        assert text.count("linalg.matmul") == operators
        assert f"util.return %x{operators} " in text


def test_the_others_are_divided_by_the_first_and_large_differences_are_named():
    values = {"tool": [1.0, 1.01, 0.99, 1.0, 1.0], "worker": [1.0, 1.01, 0.99, 1.0, 1.0], "row": [0.9, 0.909, 0.891, 0.9, 0.9]}  # fmt: skip
    table = alternation.tool_table([{"kind": "tool", "entry": "conv", "values_ms": values}])
    assert lines(table) == [
        ("conv", "worker / tool", "1", "1.000", "1.000 to 1.000", ""),
        ("conv", "row / tool", "1", "0.900", "0.900 to 0.900", "by more than 2%"),
    ]
