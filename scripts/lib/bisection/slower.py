"""Whether a release is slower: its module and those of the ends are timed in turns, each with the tools of its own release."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from scripts.lib.bisection.search import Side
from scripts.lib.bisection.trial import Trial
from scripts.lib.bundling.case import MEASURE
from scripts.lib.comparison import paired
from scripts.lib.config.stage import MEASUREMENT
from scripts.lib.core import atomic
from scripts.lib.iree import turns
from scripts.lib.iree.turns import TurnError, TurnRule
from scripts.lib.report import ratio
from scripts.lib.report.ratio import Interval
from scripts.lib.supervision import outcome

LEAST_RATIO = 1.03
"""The least ratio of the latencies of the ends that can be bisected."""
RULES = (TurnRule(), TurnRule(turns=48, budget_s=180.0))
"""How often modules are timed; the second rule where the first does not decide."""


def not_slower(good: Trial, bad: Trial) -> str:
    """Why the module of `bad` is not slower than that of `good`; "" if it is."""
    for name, end in (("good", good), ("bad", bad)):
        if end.outcome.status != outcome.OK:
            return f"{end.candidate.version}, the {name} end, has no latency: {end.words}: {end.outcome.detail}"
    for rule in RULES:
        found = interval(_differences((good, bad), rule, good, None, bad))
        _say(
            f"{bad.candidate.version} takes {shown(found)} times as long as {good.candidate.version}"
        )
        if found.low > 1 and found.ratio >= LEAST_RATIO:
            return ""
    return f"{bad.candidate.version} takes {shown(found)} times as long as {good.candidate.version}; it must be at least {LEAST_RATIO:g} times"


def side(good: Trial, bad: Trial, of: Trial) -> Side:
    """The end whose latency is nearer to that of a release, as a ratio; NEITHER if that is not certain."""
    if of.outcome.status != outcome.OK:
        return Side.NEITHER
    for rule in RULES:
        found = interval(_differences((good, bad, of), rule, good, bad, of))
        middle = f"the geometric mean of {good.candidate.version} and {bad.candidate.version}"
        _say(f"{of.candidate.version} takes {shown(found)} times as long as {middle}")
        if found.low > 1 or found.high < 1:
            return Side.BAD if found.low > 1 else Side.GOOD
    return Side.NEITHER


def interval(differences: Sequence[float]) -> Interval:
    """The ratio whose logarithm is the mean of `differences`, one per turn, with its 95 % interval."""
    of = paired.estimate(differences)
    return ratio.of_sum(of.value, [of])


def _differences(
    trials: Sequence[Trial], rule: TurnRule, one: Trial, other: Trial | None, of: Trial
) -> list[float]:
    """Time modules in turns; per turn, the logarithm of latency of `of` / latency of `one` (or / geometric mean of `one` and `other`).

    A module that cannot be timed ends the command: the verification has just run it.
    """
    sides = [_side(trial) for trial in trials]
    found = turns.take(sides, rule, _threads(trials[0]))
    names = [end.candidate.version for end in (one, other) if end is not None]
    per_end = [paired.log_ratios(found, name, of.candidate.version) for name in names]
    return [statistics.fmean(values) for values in zip(*per_end, strict=True)]


def _side(of: Trial) -> turns.Side:
    measured = _measurement(of)
    command, call_ms = measured["command"], statistics.median(measured["latency"]["values_ms"])
    return turns.Side(of.candidate.version, command, Path.cwd(), call_ms / 1e3)


def _threads(of: Trial) -> int:
    return _measurement(of).get("threads") or 1


def _measurement(of: Trial) -> dict:
    """The measurement of a trial. Raises TurnError if it has none."""
    if of.vmfb is None:
        raise TurnError(of.candidate.version, "no module")
    found = atomic.read_json(of.vmfb.parent / MEASURE / MEASUREMENT)
    if not found.get("command"):
        raise TurnError(
            of.candidate.version, "its measurement has no command of iree-benchmark-module"
        )
    return found


def shown(of: Interval) -> str:
    """A ratio with its interval."""
    return f"{of.ratio:.3f} ({of.low:.3f} to {of.high:.3f})"


def _say(text: str) -> None:
    print(f"    in turns: {text}", flush=True)
