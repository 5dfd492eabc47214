"""BackendBench's criterion for the results of an operator problem, and its scores of a suite.

They are those of its scripts/main.py and eval.py. A result is correct if all outputs have the type
and shape of eager's outputs, and |eager - output| is at most 0.01 + 0.01 × |output| everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean
from typing import Any

import numpy as np

from scripts.measure.verify import torch_same, verification
from scripts.measure.verify.verify import Expected

TOLERANCE = 1e-2
"""The absolute and the relative tolerance."""


def is_correct(
    outputs: Sequence[np.ndarray], golden: Sequence[np.ndarray], dtypes: Sequence[str]
) -> bool:
    """Return whether outputs pass the criterion. `dtypes`: torch's names, of golden."""
    allowed = torch_same.Tolerance(TOLERANCE)
    return torch_same.compare(outputs, golden, None, allowed, dtypes).code == verification.PASS


def judged(outputs: Sequence[np.ndarray], expected: Expected) -> dict[str, Any]:
    """Return `backendbench_correct`, and the largest absolute and relative errors. The errors are
    over all values of all outputs; they are None if outputs have other shapes than eager's, or if
    no value can be compared. A relative error is that of a value other than 0."""
    golden = list(expected.golden)
    dtypes = [kind.dtype for kind in expected.types]
    facts: dict[str, Any] = {
        "backendbench_correct": is_correct(outputs, golden, dtypes),
        "max_abs_error": None,
        "max_rel_error": None,
    }
    if [np.shape(output) for output in outputs] != [array.shape for array in golden]:
        return facts
    for got, want in zip(outputs, golden, strict=True):
        exact = want.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(np.asarray(got).astype(np.float64) - exact)
        finite = np.isfinite(error)
        compared = finite & (exact != 0)
        relative = error[compared] / np.abs(exact[compared])
        for key, errors in (("max_abs_error", error[finite]), ("max_rel_error", relative)):
            if errors.size:
                facts[key] = max(facts[key] or 0.0, float(errors.max()))
    return facts


@dataclass(frozen=True)
class Result:
    """The result of one problem. `speedup`: eager's time divided by its own; None if not timed."""

    op: str
    is_correct: bool
    speedup: float | None = None


@dataclass(frozen=True)
class OperatorScore:
    """The scores of one operator. `correctness`: the share of its problems that are correct. `performance`: the
    geometric mean of their speed-ups; a problem that is wrong or was not timed counts as 1."""

    op: str
    problems: int
    passed: int
    performance: float

    @property
    def correctness(self) -> float:
        return self.passed / self.problems


@dataclass(frozen=True)
class Scores:
    """The scores of a suite. Each operator has the same weight, whatever its number of problems.

    `correctness`: mean of the operators' correctness. `fully_correct`: share of the operators whose problems are all
    correct (BackendBench's main.py prints it as its correctness score). `performance`: geometric mean of the operators'
    performance. `perf_at_p`: share of the operators that are fully correct with a performance above `p`.
    """

    operators: tuple[OperatorScore, ...]
    p: float
    correctness: float
    fully_correct: float
    performance: float
    perf_at_p: float


def of_results(results: Iterable[Result], p: float = 1.0) -> Scores:
    """Return the scores of the results of a suite. Raises ValueError if there are no results."""
    by_operator: dict[str, list[Result]] = {}
    for result in results:
        by_operator.setdefault(result.op, []).append(result)
    if not by_operator:
        raise ValueError("no result to score")
    operators = []
    for op, own in sorted(by_operator.items()):
        performance = geometric_mean((r.speedup if r.is_correct else None) or 1.0 for r in own)
        operators.append(OperatorScore(op, len(own), sum(r.is_correct for r in own), performance))
    return Scores(
        operators=tuple(operators),
        p=p,
        correctness=fmean(score.correctness for score in operators),
        fully_correct=fmean(score.correctness == 1 for score in operators),
        performance=geometric_mean(score.performance for score in operators),
        perf_at_p=fmean(s.correctness == 1 and s.performance > p for s in operators),
    )
