"""Greedy decoding: what a language model's program generates, held to transformers' own tokens.

A program takes part whose module has a method `generation()` (models/parts/causal_lm.py). Its
inputs are a mapping: `input_ids` are the tokens, `position` counts up, and an input that bears
the name of an output is that output of the call before. Its output `logits` (or its only output) is of
the next token, or of every position, of which the last counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scripts.lib.artifacts.tensors import TensorType

TIE = 6.0
"""Under noise, the difference of two logits in units of the allowed RMS of one: four standard
deviations of a difference of two independent errors."""

Call = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Generation:
    """Token ids generated greedily, [batch_size][steps], and for each by how much its logit is
    above the next best one's."""

    tokens: list[list[int]]
    margins: list[list[float]]

    @property
    def steps(self) -> int:
        return len(self.tokens[0])


@dataclass(frozen=True)
class Followed:
    """How many of `steps` steps gave the expected tokens; `problem` says of the first that did
    not which token came instead, and is empty where there is none."""

    matched: int
    steps: int
    problem: str


def of(module: Any) -> Generation | None:
    """What a model's module says of its own generation, a mapping with the fields of Generation;
    None for most."""
    found = module.generation() if callable(getattr(module, "generation", None)) else None
    fields = {field.name for field in dataclasses.fields(Generation)}
    if not isinstance(found, Mapping) or set(found) != fields:
        return None  # a method of that name that is for something else
    return Generation(**found)


def follow(
    call: Call,
    start: Sequence[np.ndarray],
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    expected: Generation,
    tol: float,
    noise: float | None = None,
) -> Followed:
    """Run the program step by step from the inputs `start` and compare its greedy tokens.

    Each step is given the expected token of the step before, so one wrong token is one mismatch.
    Another token than the expected one is none where both logits are one within `tol` (relative
    and absolute, as outputs are compared) or within the noise of right programs (noise.py): the two
    are a tie, in the program as in transformers.
    """
    names = [_name(kind.name.partition("]")[2]) for kind in inputs]
    made = [_name(kind.name) for kind in outputs]
    wanted = np.asarray(expected.tokens)
    current, matched, problem = list(start), 0, ""
    for step in range(expected.steps):
        found = dict(zip(made, call(current), strict=True))
        logits = _next_logits(found)
        ties = [_tie(row, tol, noise) for row in logits]
        differs = _difference(logits, wanted[:, step], [m[step] for m in expected.margins], ties)
        matched += not differs
        problem = problem or (differs and f"greedy token {step + 1} of {expected.steps}: {differs}")
        found["input_ids"] = wanted[:, step : step + 1]
        current = [
            old + 1 if name == "position" else np.asarray(found.get(name, old))
            for name, old in zip(names, current, strict=True)
        ]
    return Followed(matched, expected.steps, problem)


def _next_logits(found: Mapping[str, np.ndarray]) -> np.ndarray:
    """[batch_size, vocabulary], of the last position."""
    logits = found["logits"] if "logits" in found else next(iter(found.values()))
    logits = np.asarray(logits).astype(np.float32)
    return logits if logits.ndim == 2 else logits[:, -1]


def _tie(logits: np.ndarray, tol: float, noise: float | None) -> float:
    """By how much two logits of one position may differ in one right program and not in another."""
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
