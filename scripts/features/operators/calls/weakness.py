"""Check whether a problem detects errors: find the wrong answers that pass its verification.

An answer that is bitwise equal to eager's is not wrong (the result of `fill_` is a constant).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from scripts.features.operators.calls import inputs as make_inputs
from scripts.features.operators.calls.calling import Call
from scripts.features.operators.calls.golden import Observed
from scripts.torch_model import convert
from scripts.verify import codes, verify

Answer = list[np.ndarray]
_OTHER_SEED = 1_000_003


def weak(
    call: Call,
    inputs: Sequence[torch.Tensor],
    observed: Observed,
    passes: Callable[[Answer], bool] | None = None,
) -> tuple[str, ...]:
    """Return the names of the wrong answers that pass this project's verification, or `passes`."""
    (found,) = weak_by(call, inputs, observed, [passes or verified_against(observed)])
    return found


def verified_against(observed: Observed) -> Callable[[Answer], bool]:
    """Return whether an answer passes this project's verification, as a function."""
    expected = observed.expected()
    return lambda answer: verify.verify(answer, expected, {}).code == codes.PASS


def weak_by(
    call: Call,
    inputs: Sequence[torch.Tensor],
    observed: Observed,
    judges: Sequence[Callable[[Answer], bool]],
) -> list[tuple[str, ...]]:
    """Return the names of the wrong answers that pass, for each of several criteria."""
    found: list[dict[str, None]] = [{} for _ in judges]
    for name, answer in answers(call, inputs, observed):
        if all(name in passed for passed in found) or _is_equal(answer, observed.eager):
            continue
        for judge, passed in zip(judges, found, strict=True):
            if name not in passed and judge(answer):
                passed[name] = None
    return [tuple(passed) for passed in found]


def answers(
    call: Call, inputs: Sequence[torch.Tensor], observed: Observed
) -> Iterator[tuple[str, Answer]]:
    """Yield answers that ignore what the operator computes, each with its name."""
    eager = observed.eager
    yield "zeros", [np.zeros_like(array) for array in eager]
    yield "constant", [np.ones_like(array) for array in eager]
    yield "constant", [_mean_of(array) for array in eager]
    for tensor in inputs:
        if (copied := _copies(convert.to_numpy(tensor), eager)) is not None:
            yield "input", copied
    yield "stale", _of_an_earlier_call(call)


def _mean_of(array: np.ndarray) -> np.ndarray:
    """Return an array in which each value is the mean of the finite values."""
    values = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    mean = float(np.mean(values, dtype=np.float64)) if values.size else 0.0
    return np.full_like(array, np.round(mean) if array.dtype.kind in "iub" else mean)


def _copies(source: np.ndarray, eager: Answer) -> Answer | None:
    """Replace each result of the same size by an input; None if no result has that size."""
    if not any(array.size == source.size for array in eager):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return [
            source.reshape(array.shape).astype(array.dtype) if array.size == source.size else array
            for array in eager
        ]


def _of_an_earlier_call(call: Call) -> Answer:
    """Return results for other inputs, which memory holds if nothing is written."""
    with torch.no_grad():
        return [convert.to_numpy(t) for t in call(*make_inputs.make(call, _OTHER_SEED))]


def _is_equal(answer: Answer, eager: Answer) -> bool:
    return len(answer) == len(eager) and all(
        got.shape == want.shape and np.array_equal(got, want, equal_nan=want.dtype.kind == "f")
        for got, want in zip(answer, eager, strict=True)
    )
