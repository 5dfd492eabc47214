"""Compute BackendBench's scores of a suite of operator problems.

The scores are computed as in its scripts/main.py and eval.py. A result is correct by its criterion:
all outputs have the type and shape of eager's outputs, and |eager - output| is at most
0.01 + 0.01 × |output| everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scripts.verify import codes, torch_same

TOLERANCE = 1e-2
"""The absolute and the relative tolerance."""


@dataclass(frozen=True)
class Result:
    """The result of one problem. `speedup`: eager's time divided by its own; None if not timed."""

    op: str
    is_correct: bool
    speedup: float | None = None


@dataclass(frozen=True)
class OperatorScore:
    """The scores of one operator.

    `correctness`: the share of its problems that are correct. `performance`: the geometric mean of
    their speed-ups; a problem that is wrong or was not timed counts as 1.
    """

    op: str
    problems: int
    passed: int
    performance: float

    @property
    def correctness(self) -> float:
        return self.passed / self.problems

    @property
    def is_correct(self) -> bool:
        """Whether all of its problems are correct."""
        return self.passed == self.problems


@dataclass(frozen=True)
class Scores:
    """The scores of a suite. Each operator has the same weight, whatever its number of problems.

    `correctness`: mean of the operators' correctness. `fully_correct`: share of the operators whose
    problems are all correct (BackendBench's main.py prints it as its correctness score).
    `performance`: geometric mean of the operators' performance. `perf_at_p`: share of the operators
    that are fully correct with a performance above `p`.
    """

    operators: tuple[OperatorScore, ...]
    p: float
    correctness: float
    fully_correct: float
    performance: float
    perf_at_p: float


def is_correct(
    outputs: Sequence[np.ndarray], golden: Sequence[np.ndarray], dtypes: Sequence[str]
) -> bool:
    """Return whether outputs pass BackendBench's criterion. `dtypes`: torch's names, of golden."""
    allowed = torch_same.Tolerance(TOLERANCE)
    return torch_same.compare(outputs, golden, None, allowed, dtypes).code == codes.PASS


def of(results: Iterable[Result], p: float = 1.0) -> Scores:
    """Return the scores of the results of a suite. Raises ValueError if there are no results."""
    by_operator: dict[str, list[Result]] = {}
    for result in results:
        by_operator.setdefault(result.op, []).append(result)
    if not by_operator:
        raise ValueError("no result to score")
    operators = tuple(_of_operator(op, by_operator[op]) for op in sorted(by_operator))
    return Scores(
        operators=operators,
        p=p,
        correctness=_mean(operator.correctness for operator in operators),
        fully_correct=_mean(operator.is_correct for operator in operators),
        performance=_geometric_mean(operator.performance for operator in operators),
        perf_at_p=_mean(o.is_correct and o.performance > p for o in operators),
    )


def _of_operator(op: str, results: Sequence[Result]) -> OperatorScore:
    return OperatorScore(
        op=op,
        problems=len(results),
        passed=sum(result.is_correct for result in results),
        performance=_geometric_mean(map(_counted, results)),
    )


def _counted(result: Result) -> float:
    """Return the speed-up of a result, or 1 if it is wrong or was not timed."""
    return result.speedup if result.is_correct and result.speedup is not None else 1.0


def _mean(values: Iterable[float]) -> float:
    found = [float(value) for value in values]
    return math.fsum(found) / len(found)


def _geometric_mean(values: Iterable[float]) -> float:
    return math.exp(_mean(math.log(value) for value in values))
