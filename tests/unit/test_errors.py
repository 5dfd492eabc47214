"""What is quoted of an exception: one line, also where its message is empty or begins with an empty line."""

import pytest

from scripts.frontends.torch_model import errors


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError("\n  one\n"), "one"),
        (AssertionError(), "AssertionError"),
        (MemoryError(" \n"), "MemoryError"),
    ],
)
def test_the_first_line_of_an_error_has_text(error, line):
    assert errors.first_line(error) == line


def test_the_cause_is_that_of_the_first_exception():
    outer = RuntimeError("outer")
    outer.__cause__ = KeyError("x" * 400)
    assert errors.cause(outer) == f"KeyError: '{'x' * 299}"
