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
    """
    names = [_name(kind.name.partition("]")[2]) for kind in inputs]
    output_names = [_name(kind.name) for kind in outputs]
    wanted = np.asarray(expected.tokens)
    current, matched, problem = list(start), 0, ""
    for step in range(expected.steps):
        by_name = dict(zip(output_names, call(current), strict=True))
        logits = by_name["logits"] if "logits" in by_name else next(iter(by_name.values()))
        logits = np.asarray(logits).astype(np.float32)
        logits = logits if logits.ndim == 2 else logits[:, -1]  # [batch_size, vocabulary]
        ties = [_tie(row, tol, noise) for row in logits]
        differs = _difference(logits, wanted[:, step], [m[step] for m in expected.margins], ties)
        matched += not differs
        problem = problem or (differs and f"greedy token {step + 1} of {expected.steps}: {differs}")
        by_name["input_ids"] = wanted[:, step : step + 1]
        current = [
            old + 1 if name == "position" else np.asarray(by_name.get(name, old))
            for name, old in zip(names, current, strict=True)
        ]
    return matched, problem


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
