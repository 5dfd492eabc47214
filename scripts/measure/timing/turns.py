"""Times the members of a group in turns, so that all of them meet the same seconds of the machine.

A member is a process that has loaded a verified program. A turn is one slice of calls of every member, in random order.
After some turns all members are started again, because processes of one program differ: by 5 % where a call takes some
milliseconds, and no number of turns averages that away. One start of all members with its turns is a generation.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from scripts.core.machine import MachineLoad, machine_times
from scripts.measure.timing.ratios import LEAST
from scripts.measure.timing.worker import CHECK, SLICE


@dataclass(frozen=True)
class Rule:
    """How a group is timed: the defaults of `measure:` in config.yaml.

    `budget_s`: seconds of turns of the whole group at most, without loading. `slice_s`: seconds of a slice; a longer
    call is a separate slice. `generations`: how often the members are started in that time; if their calls are long, less often. `until_decided`: go on
    until every ratio is decided, for ten times the budget at most.
    """

    budget_s: float = 20.0
    slice_s: float = 0.03
    generations: int = 12
    until_decided: bool = False

    @property
    def most_s(self) -> float:
        """Seconds of turns that a group may take."""
        return self.budget_s * (MOST if self.until_decided else 1)

    def text(self) -> str:
        """The rule as JSON, as the files of timed groups have it."""
        return json.dumps(asdict(self), sort_keys=True)


PAUSE_S = 0.008
"""Seconds before a slice. OpenMP's threads spin for some milliseconds after the last call of a member."""
UNCOUNTED = 0.1
"""The share of a slice, one call at least, that is made before it and does not count: it fills the caches. A call that is
longer than a slice needs none."""
STEADY, STEADY_SLICES = 0.05, 3
"""A member is warm when so many slices in a row were not faster by more than this share."""
WARMUP_S, WARMUP_SLICES = 10.0, 30
"""A member has to become warm in so many seconds, or slices if they take longer: on a busy machine, some of a few slices are faster
by chance."""
LEAST_CALLS, LEAST_S, LONG, SLOWER = 5, 1.0, 3, 0.5
"""A warm-up has so many calls, or takes so many seconds: an LSTM of PyTorch still prepares in the fourth call. A member whose
calls take LONG slices is steady as soon as a call is not faster than the one before. In later generations, one that is as fast as
it was when warm, or whose calls were that long, needs only the first call. One that is slower by up to SLOWER needs one slice more: processes
differ, low quantiles do not see slow early calls, and one that gets much faster in its turns begins them again."""
SHARE = 0.25
"""Slices are at least this share of the slowest member's call, so that fast members make more than one in a slow turn."""
TURNS, FEWER = 4, 5
"""A generation has this many turns, if the budget then has FEWER generations at least. Where calls take long, a start of all members
takes longer than their turns, and the calls of a process differ more than processes do."""
HANG_S = 60.0
"""A slice that takes this long, and twenty times its planned seconds, hangs."""
MOST = 10
"""How many budgets `until_decided` may take."""
NOT_STEADY, RECOMPILED = "not-steady", "recompilation"
"""Reasons of members that leave the group."""


class MemberEnded(Exception):
    """A member has ended, or does not answer. `status`, `reason` and `detail` as in an outcome."""

    def __init__(self, status: str, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.reason, self.detail = status, reason, detail


class Worker(Protocol):
    """The process of a member."""

    def wait_ready(self) -> None:
        """Return when the program is loaded. Raises MemberEnded."""

    def first_call(self) -> dict[str, Any]:
        """Make the first call of the program, which may compile: the answer is that of a slice. Raises MemberEnded."""

    def ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """The answer to a request. Raises MemberEnded if there is none within `limit_s` seconds."""

    def rest(self) -> None:
        """Release the program at the end of a generation."""

    def close(self) -> None:
        """End the process."""


@dataclass
class Generation:
    """The calls of a member in one generation. `each_s`: seconds of every call that counts; `turns`: its slices;
    `warmup`: calls before the first turn. `left_bytes`: of memory that each call has left behind (worker.Held)."""

    each_s: list[float] = field(default_factory=list)
    turns: int = 0
    warmup: int = 0
    left_bytes: int | None = None


@dataclass
class Timed:
    """The generations of a member, in order. `ended`: why it left the group, if it did. `peak_rss_mb`: peak memory of
    its process, in MiB."""

    generations: list[Generation] = field(default_factory=list)
    ended: MemberEnded | None = None
    peak_rss_mb: float | None = None


@dataclass
class _Running:
    """A member in a generation. `warm_s`: its fastest call in earlier generations; `call_s`: in this one; `calls`: those of a
    slice; `is_timed`: whether its turns have begun."""

    worker: Worker
    now: Generation
    warm_s: float = 0.0
    call_s: float = math.inf
    calls: int = 1
    peak_mb: float | None = None
    is_timed: bool = False


class Group:
    """Times members. `start` starts the process of a member. `enough` is called after each generation with what was timed
    so far; True ends the group."""

    def __init__(
        self,
        members: Sequence[str],
        start: Callable[[str], Worker],
        rule: Rule,
        enough: Callable[[Mapping[str, Timed]], bool],
        said: Callable[[str], None] = lambda _: None,
        seed: int | None = None,
    ) -> None:
        self._start, self._rule, self._said = start, rule, said
        self._enough = enough
        self._random = random.Random(seed)
        self._turn_s, self._slice_s = 0.0, rule.slice_s
        self._left = list(members)
        self._warm_s: dict[str, float] = {}
        self.load = MachineLoad()
        self.timed = {name: Timed() for name in members}

    def run(self) -> None:
        """Take generations until there is enough, or the budget is used up."""
        rule = self._rule
        budget_s, spent_s = rule.most_s, 0.0
        while self._left:
            each_s = self._generation_s()
            spent_s += self.generation(min(each_s, max(budget_s - spent_s, each_s / 2)))
            done = max(len(member.generations) for member in self.timed.values())
            # One that would begin within the budget and end far beyond it is left out. What an interval needs may take
            # twice the budget.
            at_most_s = budget_s * (1 if done >= min(LEAST, rule.generations) else 2)
            if spent_s + max(self._turn_s, each_s / 2) > at_most_s:
                return
            if self._enough(self.timed):
                return

    def _generation_s(self) -> float:
        """Seconds of the turns of the next generation."""
        fewest = min(FEWER, self._rule.generations)
        shortest, longest = (
            self._rule.budget_s / count for count in (self._rule.generations, fewest)
        )
        return max(shortest, min(longest, TURNS * self._turn_s))

    def generation(self, seconds: float) -> float:
        """Start all members, warm them up and take turns for `seconds` seconds. Returns the seconds of the turns."""
        with ExitStack() as opened:
            begun = time.monotonic()
            running: dict[str, _Running] = {}
            # In random order: the one of two equal processes that was always started last took 0.65 ± 0.3 % longer in 16 groups.
            for name in self._random.sample(self._left, len(self._left)):
                try:
                    warm_s = self._warm_s.get(name, 0.0)
                    running[name] = _Running(self._start(name), Generation(), warm_s)
                    opened.callback(running[name].worker.rest)
                except MemberEnded as error:
                    self._left_by(name, error)
            self._each(running, list(running), lambda member: member.worker.wait_ready())
            loaded = time.monotonic()
            self._each(running, list(running), self._warm_up)
            slowest_s = max((member.call_s for member in running.values()), default=0.0)
            self._slice_s = max(self._rule.slice_s, SHARE * slowest_s)
            for member in running.values():
                member.calls = self._planned(member)
            start, busy = time.monotonic(), machine_times()
            turns = 0
            while running and (turns == 0 or time.monotonic() - start + self._turn_s / 2 < seconds):
                began = time.monotonic()
                self._each(running, self._random.sample(list(running), len(running)), self._slice)
                self._turn_s = time.monotonic() - began
                turns += 1
            spent_s = time.monotonic() - start
            self.load.add(busy, machine_times(), spent_s)
            self._each(running, list(running), self._check)
            self._said(
                f"generation: {len(running)} members, loaded in {loaded - begun:.1f} s, warm in "
                f"{start - loaded:.1f} s, {turns} turns in {spent_s:.1f} s"
            )
            for name, member in running.items():
                self.timed[name].generations.append(member.now)
                self.timed[name].peak_rss_mb = member.peak_mb
                self._warm_s[name] = min(member.call_s, member.warm_s or math.inf)
            return spent_s

    def _each(
        self, running: dict[str, _Running], names: Sequence[str], do: Callable[[_Running], None]
    ) -> None:
        """Do something with each member. One that ends leaves the group, and the others go on."""
        for name in names:
            try:
                do(running[name])
            except MemberEnded as error:
                running.pop(name).worker.close()
                self._left_by(name, error)

    def _left_by(self, name: str, error: MemberEnded) -> None:
        self.timed[name].ended = error
        self._said(f"{name} left the group: {error.status} ({error.reason}): {error.detail}")
        self._left.remove(name)

    def _warm_up(self, member: _Running) -> None:
        """Make slices until they no longer get faster, or are about as fast as in earlier generations."""
        begun, spent_s = time.monotonic(), 0.0
        steady = slices = 0
        # What is prepared in the first calls does not matter if a call is long.
        while steady < (1 if member.call_s > LONG * self._rule.slice_s else STEADY_SLICES) or (
            member.now.warmup < LEAST_CALLS and spent_s < LEAST_S
        ):
            before = member.call_s
            if member.now.warmup:
                answer = self._ask(member, uncounted=0)
            else:
                # Not while other members load: on busy cores, threads that wait for each other spin.
                answer = member.worker.first_call()["each_s"]
            member.now.warmup += len(answer)
            member.call_s = min(member.call_s, *answer)
            member.calls = self._planned(member)
            is_long = member.warm_s > LONG * self._rule.slice_s
            most = 1 + (SLOWER if slices else STEADY)
            if is_long or answer[-1] <= member.warm_s * most:
                return
            steady = 0 if member.call_s < before * (1 - STEADY) else steady + 1
            slices += 1
            spent_s = time.monotonic() - begun
            if spent_s > WARMUP_S and (steady or before == math.inf):
                return
            if spent_s > WARMUP_S and slices >= WARMUP_SLICES:
                detail = (
                    f"after {member.now.warmup} calls in {spent_s:.0f} s, calls still became faster"
                )
                raise MemberEnded("error", NOT_STEADY, detail)

    def _planned(self, member: _Running) -> int:
        return max(1, math.ceil(self._slice_s / member.call_s - 1e-9))

    def _slice(self, member: _Running) -> None:
        time.sleep(PAUSE_S)
        member.is_timed = True
        uncounted = (
            max(1, round(UNCOUNTED * member.calls)) if member.call_s < self._rule.slice_s else 0
        )
        answer = self._ask(member, uncounted)
        faster = min(answer) < member.call_s * (1 - STEADY) ** STEADY_SLICES
        if faster and min(answer) < WARMUP_S:
            # It was not warm: what was timed was still its warm-up. A call of WARMUP_S that is not the first one is warm.
            member.now.warmup += len(member.now.each_s) + len(answer)
            member.now.each_s, member.now.turns = [], 0
            member.call_s = min(answer)
            self._warm_up(member)
            self._slice(member)
            return
        if min(answer) < member.call_s:
            member.call_s = min(answer)
            member.calls = self._planned(member)
        member.now.each_s += answer
        member.now.turns += 1

    def _ask(self, member: _Running, uncounted: int) -> list[float]:
        """Seconds of each call of a slice."""
        planned_s = member.calls * member.call_s if member.call_s < math.inf else 1.0
        request = {
            "calls": member.calls,
            "uncounted": uncounted,
            "seconds": 10 * max(planned_s, self._slice_s),
        }
        answer = member.worker.ask({SLICE: request}, max(HANG_S, 20 * planned_s))
        if member.now.turns and answer["compiled"]:
            raise MemberEnded(
                "error",
                RECOMPILED,
                f"compilations while calls were timed: {answer['compiled']}; a value that the compiled code "
                "assumes has changed between calls",
            )
        self.load.own_s += answer["cpu_s"] if member.is_timed else 0.0
        return answer["each_s"]

    def _check(self, member: _Running) -> None:
        answer = member.worker.ask({CHECK: True}, HANG_S)
        member.peak_mb, member.now.left_bytes = answer["peak_rss_mb"], answer.get("left_bytes")
