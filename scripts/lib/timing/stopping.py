"""When to stop measuring: one rule for IREE and every baseline, fast and slow devices alike."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class StoppingRule:
    """`repeat` repetitions of at least `repetition_s` seconds each, within `budget_s` seconds.

    A repetition is the mean of as many calls as fill it, or of `iterations_per_run` calls where
    that is set; a call longer than `repetition_s` is a repetition of its own. Where the budget
    does not hold all repetitions, it wins. These are the defaults of `measure:` in config.yaml.
    """

    repeat: int = 10
    iterations_per_run: int | None = None
    repetition_s: float = 0.1
    warmup_s: float = 0.5
    budget_s: float = 5


@dataclass(frozen=True)
class Schedule:
    """What the rule comes to for calls of a known length."""

    iterations: int
    repetitions: int
    warmup_s: float


def typical_seconds(call: Callable[[], object], first_s: float, rule: StoppingRule) -> float:
    """Seconds of a call to plan with: the shortest of some `rule.repetition_s` seconds of calls.

    The first call, of `first_s` seconds, has paid for what is lazily made; it is taken as it is
    only where it alone is longer than the budget. The one after it may still compile (PyTorch/XLA
    does in training, for gradients that are now there): there are two at least.
    """
    if first_s > rule.budget_s:
        return first_s
    times: list[float] = []
    end = time.perf_counter() + rule.repetition_s
    while not times or (len(times) < 2 and times[0] < rule.budget_s) or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def plan(rule: StoppingRule, call_s: float) -> Schedule:
    """Iterations a repetition, repetitions and warm-up for calls of `call_s` seconds.

    Always at least one repetition. A warm-up takes whole calls, so where one call alone is
    longer than the budget there is none: what warms up is nothing beside such a call.
    """
    call_s = max(call_s, 1e-9)
    iterations = rule.iterations_per_run or max(1, math.ceil(rule.repetition_s / call_s - 1e-9))
    affordable = int(rule.budget_s / (iterations * call_s))
    return Schedule(
        iterations=iterations,
        repetitions=max(1, min(rule.repeat, affordable)),
        warmup_s=rule.warmup_s if call_s <= rule.budget_s else 0.0,
    )
