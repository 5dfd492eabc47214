"""Greedy decoding: what a language model's program generates, held to transformers' own tokens.

A program takes part whose module has a method `generation()` (models/parts/causal_lm.py). Its
inputs are a mapping: `input_ids` are the tokens, `position` counts up, and an input that bears
the name of an output is that output of the call before. Its output `logits` is of the next token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scripts.lib.artifacts.tensors import TensorType

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
) -> Followed:
    """Run the program step by step from the inputs `start` and compare its greedy tokens.

    Each step is given the expected token of the step before, so one wrong token is one mismatch.
    Another token than the expected one is none where both logits are one within `tol` (relative
    and absolute, as outputs are compared): the two are a tie, in the program as in transformers.
    """
    names = [_name(kind.name.partition("]")[2]) for kind in inputs]
    made = [_name(kind.name) for kind in outputs]
    wanted = np.asarray(expected.tokens)
    current, matched, problem = list(start), 0, ""
    for step in range(expected.steps):
        found = dict(zip(made, call(current), strict=True))
        logits = np.asarray(found["logits"]).astype(np.float32)
        differs = _difference(logits, wanted[:, step], [m[step] for m in expected.margins], tol)
        matched += not differs
        problem = problem or (differs and f"greedy token {step + 1} of {expected.steps}: {differs}")
        found["input_ids"] = wanted[:, step : step + 1]
        current = [
            old + 1 if name == "position" else np.asarray(found.get(name, old))
            for name, old in zip(names, current, strict=True)
        ]
    return Followed(matched, expected.steps, problem)


def _difference(
    logits: np.ndarray, wanted: np.ndarray, margins: Sequence[float], tol: float
) -> str:
    """What is wrong with the best tokens of `logits`, [batch_size, vocabulary]; nothing if equal."""
    best = logits.argmax(-1)
    for row in np.flatnonzero(best != wanted).tolist():
        short = logits[row, best[row]] - logits[row, wanted[row]]
        allowed = 2 * tol * (1 + np.abs(logits[row]).max())
        if not (short <= allowed and margins[row] <= allowed):
            return (
                f"{best[row]}, transformers' is {wanted[row]}, whose logit is {short:.3g} below here "
                f"and {margins[row]:.3g} above every other there"
            )
    return ""


def _name(path: str) -> str:
    """`keys.0` of the pytree path `['keys'][0]`."""
    return ".".join(part.strip("'") for part in path.strip("[]").split("]["))
