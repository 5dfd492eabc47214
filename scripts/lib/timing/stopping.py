"""When to stop measuring: one rule for IREE and every baseline, fast and slow devices alike."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

MIN_BLOCKS = 3
"""Repetitions of a round that the budget may not cut, where the whole budget holds so many."""


@dataclass(frozen=True)
class StoppingRule:
    """`repeat` repetitions of at least `repetition_s` seconds each, within `budget_s` seconds, in
    `rounds` rounds that are taken at different times of a run.

    A repetition is the mean of as many calls as fill it, or of `iterations_per_run` calls where
    that is set; a call longer than `repetition_s` is a repetition of its own. Where the budget
    does not hold all repetitions, it wins. These are the defaults of `measure:` in config.yaml.
    """

    repeat: int = 10
    iterations_per_run: int | None = None
    repetition_s: float = 0.1
    warmup_s: float = 0.5
    budget_s: float = 5
    rounds: int = 2


@dataclass(frozen=True)
class Schedule:
    """What the rule comes to in one round, for calls of a known length."""

    iterations: int
    repetitions: int
    warmup_s: float


def typical_seconds(call: Callable[[], object], rule: StoppingRule) -> float:
    """Seconds of a call to plan with: the shortest of some `rule.repetition_s` seconds of calls.

    `call` has been called before: that first call has paid for what is lazily made. The one after
    it may still compile (PyTorch/XLA does in training, for gradients that are now there), so there
    are two at least, but for a call that is longer than the whole budget.
    """
    times: list[float] = []
    end = time.perf_counter() + rule.repetition_s
    while not times or (len(times) < 2 and times[0] < rule.budget_s) or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def plan(rule: StoppingRule, call_s: float, round_: int = 1) -> Schedule:
    """Iterations a repetition, repetitions and warm-up of round `round_` (1 or 2), for calls of
    `call_s` seconds.

    The rounds share the repetitions and the budget. Each has MIN_BLOCKS repetitions all the same
    where the whole budget holds so many, and one in any case. Where one call is longer than the
    budget, `warmup_s` is 0, which stands for a single call.
    """
    call_s = max(call_s, 1e-9)
    iterations = rule.iterations_per_run or max(1, math.ceil(rule.repetition_s / call_s - 1e-9))
    held = rule.budget_s / (iterations * call_s) * (1 + 1e-9)
    affordable = max(int(held / rule.rounds), min(MIN_BLOCKS, int(held)))
    return Schedule(
        iterations=iterations,
        repetitions=min(share(rule, round_), max(1, affordable)),
        warmup_s=rule.warmup_s if call_s <= rule.budget_s else 0.0,
    )


def share(rule: StoppingRule, round_: int) -> int:
    """How many of the repetitions are of a round, where the budget holds them all."""
    whole, rest = divmod(rule.repeat, rule.rounds)
    return whole + (round_ <= rest)
