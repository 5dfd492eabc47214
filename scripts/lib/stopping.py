"""When to stop measuring: one rule for IREE and every baseline, fast and slow devices alike."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class StoppingRule:
    """`repetitions` of at least `repetition_s` seconds each, within `budget_s` seconds in all.

    A repetition is the mean of as many calls as fill it; a call longer than `repetition_s` is
    a repetition of its own. Where the budget does not hold all repetitions, it wins.
    """

    repetitions: int = 20
    repetition_s: float = 0.1
    warmup_s: float = 0.5
    budget_s: float = 20.0


@dataclass(frozen=True)
class Plan:
    """What the rule comes to for calls of a known length."""

    iterations: int
    repetitions: int
    warmup_s: float


def plan(rule: StoppingRule, call_s: float) -> Plan:
    """Iterations a repetition, repetitions and warm-up for calls of `call_s` seconds.

    Always at least one repetition, and a warm-up of at least one call (a warm-up time is
    honoured by whole calls).
    """
    call_s = max(call_s, 1e-9)
    iterations = max(1, math.ceil(rule.repetition_s / call_s - 1e-9))
    affordable = int(rule.budget_s / (iterations * call_s))
    return Plan(
        iterations=iterations,
        repetitions=max(1, min(rule.repetitions, affordable)),
        warmup_s=min(rule.warmup_s, rule.budget_s),
    )
