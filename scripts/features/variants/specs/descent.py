"""The search for a faster lowering configuration: from the compiler's own one to its best neighbour, again and again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from scripts.features.variants.specs.lowering_config import LoweringConfig

GAIN = 1.03
"""A step is taken to a configuration that is faster by this factor. Smaller differences are within the noise of a few
repetitions, and each step costs the compilations of all neighbours."""


class Trials(Protocol):
    """What the search asks for."""

    def times(self, configs: Sequence[LoweringConfig]) -> dict[LoweringConfig, float | None]:
        """Milliseconds of each, measured once; None if it cannot be compiled or run. Those that were not tried because
        the time is over are left out."""

    def ratio(self, before: LoweringConfig, after: LoweringConfig) -> float:
        """Time of `before` / time of `after`, measured in turns."""

    def is_over(self) -> bool:
        """Whether the time for the search is used up."""


@dataclass
class Descent:
    """The result of a search. `found`: the fastest configuration; `gain`: the ratio to the start, measured in turns after the
    search (1: no step was taken). `tried`, `failed`: how many configurations were tried and could not be
    compiled or run."""

    found: LoweringConfig
    gain: float = 1.0
    tried: int = 0
    failed: int = 0
    known: set[LoweringConfig] = field(default_factory=set)


def descend(start: LoweringConfig, largest: int, trials: Trials) -> Descent:
    """Search from `start`. `largest`: see LoweringConfig.neighbours."""
    state = Descent(start, known={start})
    while not trials.is_over():
        around = [one for one in state.found.neighbours(largest) if one not in state.known]
        state.known.update(around)
        tried = trials.times(around)
        times = {one: ms for one, ms in tried.items() if ms is not None}
        state.tried += len(tried)
        state.failed += len(tried) - len(times)
        if not _step(state, sorted(times, key=times.__getitem__), trials):
            break
    return _compared(state, start, trials)


def _compared(state: Descent, start: LoweringConfig, trials: Trials) -> Descent:
    """Compare what was found with the start. The ratios of the steps say too much: each is the best of several noisy ones, and
    for a dispatch of microseconds their product can be anything."""
    if state.found != start and (gain := trials.ratio(start, state.found)) >= GAIN:
        return replace(state, gain=gain)
    return replace(state, found=start, gain=1.0)


CHALLENGERS = 3
"""How many of the fastest neighbours are measured in turns with the present configuration."""


def _step(
    state: Descent,
    fastest: Iterable[LoweringConfig],
    trials: Trials,
) -> bool:
    """Go to the first of the fastest neighbours that is faster in turns. Returns whether there is one, and the time for the
    comparisons."""
    for one in list(fastest)[:CHALLENGERS]:
        if trials.is_over():
            return False
        if trials.ratio(state.found, one) >= GAIN:
            state.found = one
            return True
    return False
