"""Greedy decoding: compares the tokens of a language model's program with those of transformers.

This applies to programs whose module has a method `generation()` (models/parts/causal_lm.py). Their
inputs are a mapping: `input_ids` are the tokens, `position` counts up, and an input with the name of
an output is that output of the previous call. The output `logits` (or the only output) is for the next
token, or for every position, of which the last one counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scripts.core.tensors import TensorType

TIE = 6.0
"""Under noise, the difference of two logits in units of the allowed RMS of one: four standard
deviations of a difference of two independent errors."""


class NotFollowed(Exception):
    """The inputs of a step cannot be made of the results of the one before; says why."""


Call = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Generation:
    """Token ids generated greedily, [batch_size][steps], and for each the difference between its logit and
    the second-best one."""

    tokens: list[list[int]]
    margins: list[list[float]]

    @property
    def steps(self) -> int:
        return len(self.tokens[0])


def generation_of(module: Any) -> Generation | None:
    """The expected tokens from a model's `generation()`, a mapping with the fields of Generation; None for
    models without it."""
    generation = module.generation() if callable(getattr(module, "generation", None)) else None
    fields = {field.name for field in dataclasses.fields(Generation)}
    if not isinstance(generation, Mapping) or set(generation) != fields:
        return None  # a method of that name that is for something else
    return Generation(**generation)


def follow(
    call: Call,
    start: Sequence[np.ndarray],
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    expected: Generation,
    tol: float,
    noise: float | None = None,
) -> tuple[int, str]:
    """Run the program step by step from the inputs `start` and compare its greedy tokens: the number of steps that gave
    the expected ones, and the first mismatch, "" if there is none.

    Each step is given the expected token of the step before, so one wrong token is one mismatch.
    Another token than the expected one is not a mismatch if it is a tie, in the program and in
    transformers: both logits are equal within `tol` (relative and absolute, as outputs are compared) or
    within the noise of correct programs (noise.py).

    Raises NotFollowed if the program has no such inputs and outputs, and whatever `call` raises.
    """
    names = [_name(kind.name.partition("]")[2]) for kind in inputs]
    output_names = [_name(kind.name) for kind in outputs]
    current, matched, problem = list(start), 0, ""
    for step in range(expected.steps):
        results = call(current)
        try:
            by_name = dict(zip(output_names, results, strict=True))
            differs = _mismatch(by_name, step, expected, tol, noise)
            if step + 1 < expected.steps:
                by_name["input_ids"] = np.asarray(expected.tokens)[:, step : step + 1]
                current = _next_inputs(by_name, inputs, names, current)
        except (LookupError, StopIteration, TypeError, ValueError) as error:
            what = f"after step {step + 1} of {expected.steps}: {type(error).__name__}: {error}"
            raise NotFollowed(what) from error
        matched += not differs
        problem = problem or (differs and f"greedy token {step + 1} of {expected.steps}: {differs}")
    return matched, problem


def _next_inputs(
    results: Mapping[str, np.ndarray],
    inputs: Sequence[TensorType],
    names: Sequence[str],
    current: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """The inputs of the next step: those that are results of this one, and the next position. Raises ValueError if they are of
    other shapes."""
    made = [
        old + 1 if name == "position" else np.asarray(results.get(name, old))
        for name, old in zip(names, current, strict=True)
    ]
    for kind, array in zip(inputs, made, strict=True):
        if array.shape != kind.shape:
            raise ValueError(f"{kind.name} would have the shape {[*array.shape]}, expected {[*kind.shape]}")  # fmt: skip
    return made


def _mismatch(
    results: Mapping[str, np.ndarray],
    step: int,
    expected: Generation,
    tol: float,
    noise: float | None,
) -> str:
    """What is wrong with the tokens of a step; nothing if they are the expected ones."""
    logits = results["logits"] if "logits" in results else next(iter(results.values()))
    logits = np.asarray(logits).astype(np.float32)
    logits = logits if logits.ndim == 2 else logits[:, -1]  # [batch_size, vocabulary]
    ties = [_tie(row, tol, noise) for row in logits]
    wanted = np.asarray(expected.tokens)[:, step]
    return _difference(logits, wanted, [m[step] for m in expected.margins], ties)


def _tie(logits: np.ndarray, tol: float, noise: float | None) -> float:
    """How much two logits of one position may differ in one correct program and still be equal in another."""
    if noise is None:
        return 2 * tol * (1 + float(np.abs(logits).max()))
    return TIE * noise * float(np.sqrt(np.mean(np.square(logits))))


def _difference(
    logits: np.ndarray, wanted: np.ndarray, margins: Sequence[float], ties: Sequence[float]
) -> str:
    """What is wrong with the best tokens of `logits`, [batch_size, vocabulary]; nothing if equal."""
    best = logits.argmax(-1)
    for row in np.flatnonzero(best != wanted).tolist():
        short = logits[row, best[row]] - logits[row, wanted[row]]
        if not (short <= ties[row] and margins[row] <= ties[row]):
            return (
                f"{best[row]}, transformers' is {wanted[row]}, whose logit is {short:.3g} below here "
                f"and {margins[row]:.3g} above every other there"
            )
    return ""


def _name(path: str) -> str:
    """`keys.0` of the pytree path `['keys'][0]`."""
    return ".".join(part.strip("'") for part in path.strip("[]").split("]["))
