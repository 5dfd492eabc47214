"""What fails in work that a row does not need leaves out its own value, and says why."""

from __future__ import annotations

import pytest

from scripts.core import extra
from scripts.results.columns import COLUMNS


@pytest.mark.parametrize("error", [AssertionError("not\n  float64"), KeyError("x"), MemoryError()])
def test_whatever_is_raised_leaves_out_one_value_with_the_reason_in_one_line(error, capsys):
    def compute():
        raise error

    left_out = {}
    assert extra.or_left_out(extra.FLOAT64, compute, left_out, None) is None
    assert left_out[extra.FLOAT64].startswith(type(error).__name__)
    assert capsys.readouterr().out == f"note: no float64 reference: {left_out[extra.FLOAT64]}\n"


def test_what_could_be_computed_is_there_and_an_end_of_the_process_is_one():
    left_out = {}
    assert extra.or_left_out(extra.WORK, lambda: 3, left_out, None) == 3
    assert left_out == {}
    with pytest.raises(SystemExit):
        extra.or_left_out(extra.WORK, lambda: exit(1), left_out, None)


def test_a_long_reason_is_cut():
    left_out = {}
    extra.leave_out(extra.PROFILE, "x" * 1000, left_out)
    assert len(left_out[extra.PROFILE]) == extra.MOST_CHARS


def test_the_column_has_all_that_was_left_out():
    column = next(field for field in COLUMNS if field.column == "left_out")
    record = {
        "reference": {"left_out": {"a": "b"}},
        "export": None,
        "run": {"left_out": {"c": "d"}},
    }
    assert column.value_in(record) == "a: b; c: d"
    assert column.value_in({"reference": {}, "export": {}, "run": {"left_out": None}}) is None
