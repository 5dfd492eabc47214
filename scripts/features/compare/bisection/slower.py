"""Whether a release is slower: its module and those of the ends are timed in turns, each with the runtime of its own release."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.core import atomic
from scripts.features.compare.bisection.search import Side
from scripts.features.compare.bisection.trial import Trial
from scripts.features.reproduce.case import VERIFY
from scripts.supervise import in_turns, outcome
from scripts.supervise.members import VERIFICATION, Member
from scripts.timing import ratios
from scripts.timing.ratios import Interval
from scripts.timing.turns import Rule

LEAST_RATIO = 1.03
"""The least ratio of the latencies of the ends that can be bisected."""
RULES = (Rule(), Rule(budget_s=80.0, generations=48))
"""How long modules are timed; the second rule where the first does not decide."""


class NotTimed(Exception):
    """A module that cannot be timed. Says why."""


def not_slower(good: Trial, bad: Trial) -> str:
    """Why the module of `bad` is not slower than that of `good`; "" if it is."""
    for name, end in (("good", good), ("bad", bad)):
        if end.outcome.status != outcome.OK:
            return f"{end.candidate.version}, the {name} end, has no latency: {end.words}: {end.outcome.detail}"
    for rule in RULES:
        found = _ratio(bad, (good,), rule)
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
        found = _ratio(of, (good, bad), rule)
        middle = f"the geometric mean of {good.candidate.version} and {bad.candidate.version}"
        _say(f"{of.candidate.version} takes {shown(found)} times as long as {middle}")
        if found.low > 1 or found.high < 1:
            return Side.BAD if found.low > 1 else Side.GOOD
    return Side.NEITHER


def _ratio(of: Trial, ends: Sequence[Trial], rule: Rule) -> Interval:
    """Time modules in turns: the latency of `of` / the geometric mean of those of `ends`. Its latency is added to its report.

    A module that cannot be timed ends the command, because the verification has just run it. Raises NotTimed.
    """
    with tempfile.TemporaryDirectory(prefix="slower-") as logs:
        timing = in_turns.take([_member(one, Path(logs)) for one in (of, *ends)], rule)
    for name, one in timing.members.items():
        if one.status != outcome.OK:
            raise NotTimed(f"{name}: {one.status} ({one.reason}): {one.detail}")
    if why := in_turns.unfit(timing):
        _say(why)
    own, *others = (timing.members[one.candidate.version].values_ms for one in (of, *ends))
    of.report["latency_ms"] = math.exp(ratios.log_mean(own))
    found = ratios.paired(own, [math.exp(ratios.log_mean(ms)) for ms in zip(*others, strict=True)])
    if found is None:
        raise NotTimed(f"{of.candidate.version}: {len(own)} generations in the budget; an interval needs {ratios.LEAST}")  # fmt: skip
    return found.interval()


def _member(of: Trial, logs: Path) -> Member:
    """The process that times the module of a trial. Raises NotTimed if it was not verified."""
    version = of.candidate.version
    if of.vmfb is None or of.python is None:
        raise NotTimed(f"{version}: no module")
    command = atomic.read_json(of.vmfb.parent / VERIFY / VERIFICATION)["command"]
    words = (str(of.python), "-m", "scripts.stages.time_module", *shlex.split(command)[1:])
    return Member(version, words, logs / f"{version}.txt", forked=False)


def shown(of: Interval) -> str:
    """A ratio with its interval."""
    return f"{of.ratio:.3f} ({of.low:.3f} to {of.high:.3f})"


def _say(text: str) -> None:
    print(f"    in turns: {text}", flush=True)
