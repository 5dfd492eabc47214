"""scripts.tools.profile.sites: which lines of a program a dispatch computes."""

from __future__ import annotations

from types import SimpleNamespace

from scripts.frontends.lowering.locations import lines_of
from scripts.tools.profile import sites

FILES = {"p.mlir"}


def op(name: str, line: int | None, *body: SimpleNamespace, iterators: str = "parallel") -> SimpleNamespace:  # fmt: skip
    """An operation as MLIR's Python bindings show it."""
    where = f'loc("p.mlir":{line}:1)' if line else "loc(unknown)"
    made = SimpleNamespace(name=name, location=where, attributes={"iterator_types": [iterators]})
    made.regions = [SimpleNamespace(blocks=[SimpleNamespace(operations=list(body))])]
    made.operation = made
    return made


def lines(*operations: SimpleNamespace) -> tuple[int, ...]:
    dispatch = op("flow.dispatch.workgroups", 99, *operations)
    return lines_of(sites._computing(dispatch, FILES), FILES)


PRODUCT = op(
    "linalg.generic", 3, op("arith.mulf", None), op("linalg.yield", 3), iterators="reduction"
)
NORM = (op("arith.subf", 4), op("arith.maximumf", 5), op("linalg.yield", 9))


def test_what_is_laid_out_for_the_next_convolution_is_not_of_that_one():
    """Line 9 is the next convolution: the operation that stores the result where that one reads it has its line."""
    assert lines(op("linalg.fill", 1), PRODUCT, op("linalg.generic", 9, *NORM)) == (3, 4, 5)
    assert lines(PRODUCT, op("linalg.generic", 9, op("linalg.yield", 9))) == (3,)
    assert lines(PRODUCT, op("linalg.transpose", 9)) == (3,)


def test_an_elementwise_operation_whose_body_has_no_lines_has_its_own():
    assert lines(op("linalg.generic", 7, op("arith.addf", None), op("linalg.yield", 7))) == (7,)
