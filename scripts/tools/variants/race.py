"""Times the modules of a search in turns, while the slow ones leave: the time goes to those that are near the fastest.

After the generations HALVED, the fastest ones stay: successive halving (Jamieson and Talwalkar 2016, "Non-stochastic best
arm identification and hyperparameter optimization"). A module also leaves as soon as the interval of its ratio to the
fastest one says that it is slower: racing (Maron and Moore 1994, "Hoeffding races"). What the target is configured to
compile leaves in the second way alone, and only if another one of these is faster: the fastest of them is the base of all
speed-ups.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import Difference
from scripts.measure.timing.turns import Group, MemberEnded, Rule, Worker
from scripts.tools.variants.candidates import Timing

HALVED = (1, 3, 7)
"""The generations after which only the fastest ones stay."""
GENERATIONS = 12
"""The generations of a race at most."""
AT_ONCE = 10
"""The modules that are timed in turns with each other at most. If there are more, they are timed in several parts, and
compared through the anchor, which is in all of them."""
RULE = dataclasses.replace(Rule(), budget_s=Rule().budget_s / Rule().generations, generations=1)
"""One generation."""

Generation = tuple[int, int]
"""The number of a generation, and of its part."""


class Race:
    """A race of modules, given by their names. `keep`: the share of them that stays after the generations
    HALVED.

    `anchor`: the one that is in all parts. `ms`: the latency of each in its generations, of those that did not fail.
    `ended`: why the others failed.
    """

    def __init__(self, keep: float, said: Callable[[str], None]) -> None:
        self._keep, self._said = keep, said
        self._number = 0
        # The last generation after which each was near the fastest one.
        self._near: dict[str, int] = {}
        self.anchor = ""
        self.ms: dict[str, dict[Generation, float]] = {}
        self.ended: dict[str, MemberEnded] = {}

    def run(
        self,
        names: Sequence[str],
        configured: Collection[str],
        start: Callable[[str], Worker],
        parts: Callable[[Sequence[str], str], list[list[str]]],
        left_s: Callable[[], float],
    ) -> None:
        """Time modules until it is decided which is the fastest, or until no seconds are left (`left_s`).

        `start` starts the process of one; `parts` says which of them are timed at once, each time with the anchor. Every
        configured one is in one generation at least, and with it all of its part.
        """
        left = list(names)
        number = 0
        while left:
            if self.anchor not in left:  # all others were compared with it
                self.ms.clear()
                number, self.anchor = 0, next((n for n in left if n in configured), left[0])
            number, begun, before = number + 1, time.monotonic(), len(left)
            self._number += 1
            for at, part in enumerate(parts(left, self.anchor)):
                if number > 1 or left_s() > 0 or at == 0 or any(n in configured for n in part[1:]):
                    self._generation(at, part, start)
            member_s = (time.monotonic() - begun) / before
            left = self._staying([n for n in left if n in self.ms], configured, number)
            if self.anchor in left and (
                number == GENERATIONS or left_s() < member_s * len(left) or self._is_decided(left)
            ):
                return

    def rank(self, name: str) -> tuple[int, float]:
        """Sorts the fastest first. One that was still near the fastest one is before those that were not any more."""
        return -self._near.get(name, 0), self._log_ratio(name)

    def rank_of_configured(self, name: str) -> tuple[int, float]:
        """Sorts the configured modules, those first that stayed longest, and then the fastest."""
        return -max(self.ms[name])[0], self._log_ratio(name)

    def timing(self, name: str, base: str | None) -> Timing:
        """The result of the comparison of a module with another one."""
        own, _ = self._pair(name, self.anchor)
        latency = ratios.of_logs([math.log(ms) for ms in own])
        timing = Timing(len(own), math.exp(ratios.log_mean(own)), *_ends(latency))
        if base is None:
            return timing
        between = self._between(base, name)
        log = between.value if between else self._log_ratio(base) - self._log_ratio(name)
        low, high = _ends(between)
        return msgspec.structs.replace(
            timing, speedup=math.exp(log), speedup_low=low, speedup_high=high
        )

    def _generation(self, at: int, part: Sequence[str], start: Callable[[str], Worker]) -> None:
        group = Group(part, start, RULE, enough=lambda _: True, said=self._said)
        group.run()
        for name, member in group.timed.items():
            if member.ended:
                self.ended[name] = member.ended
                self.ms.pop(name, None)
            else:
                ms = ratios.undisturbed(member.generations[0].each_s) * 1e3
                self.ms.setdefault(name, {})[self._number, at] = ms

    def _staying(self, names: Sequence[str], configured: Collection[str], number: int) -> list[str]:
        """Those that are in the next generation."""
        if self.anchor not in names:
            return list(names)
        ordered = sorted(names, key=self._log_ratio)
        most = max(2, math.ceil(len(names) * self._keep)) if number in HALVED else len(names)
        near = [name for name in ordered[:most] if not self._is_slower(name, ordered[0])]
        self._near |= dict.fromkeys(near, self._number)
        own = [name for name in ordered if name in configured]
        still = [name for name in own if not self._is_slower(name, own[0])]
        return [name for name in names if name in {self.anchor, *near, *still}]

    def _is_slower(self, name: str, base: str) -> bool:
        between = self._between(base, name)
        return between is not None and between.interval().verdict == ratios.SLOWER

    def _is_decided(self, names: Sequence[str]) -> bool:
        """Whether the fastest one is known, and how many times faster it is than each other one."""
        alike = [at for at in self.ms[self.anchor] if all(at in self.ms[name] for name in names)]
        values = {name: [self.ms[name][at] for at in alike] for name in names}
        fastest = min(names, key=self._log_ratio)
        return len(names) == 1 or ratios.is_decided(values, [fastest])

    def _log_ratio(self, name: str) -> float:
        """The logarithm of its latency, relative to the anchor."""
        anchor, own = self._pair(self.anchor, name)
        return ratios.log_mean(own) - ratios.log_mean(anchor)

    def _between(self, base: str, row: str) -> Difference | None:
        """How many times faster `row` is than `base`; None if too little is known."""
        return ratios.paired(*self._pair(base, row))

    def _pair(self, base: str, row: str) -> tuple[list[float], list[float]]:
        """The latencies of two modules in the generations of both that count."""
        both = [at for at in self.ms[base] if at in self.ms[row]]
        together = {
            name: [ms[at] for at in both]
            for name, ms in self.ms.items()
            if all(at in ms for at in both)
        }
        kept = [both[number] for number in ratios.counted(together)]
        return [self.ms[base][at] for at in kept], [self.ms[row][at] for at in kept]


def _ends(difference: Difference | None) -> tuple[float, float] | tuple[None, None]:
    if difference is None:
        return None, None
    interval = difference.interval()
    return interval.low, interval.high
