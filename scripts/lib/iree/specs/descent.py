"""The search for a faster lowering configuration: from the compiler's own one to its best neighbour, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scripts.lib.iree.specs.lowering_config import LoweringConfig

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
    """The result of a search. `found`: the fastest configuration; `gain`: the product of the ratios of all steps, each
    measured in turns (1: no step was taken). `tried`, `failed`: how many configurations were tried and could not be
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
        if not _step(state, sorted(times, key=times.__getitem__), trials.ratio):
            break
    return state


CHALLENGERS = 3
"""How many of the fastest neighbours are measured in turns with the present configuration."""


def _step(
    state: Descent,
    fastest: Iterable[LoweringConfig],
    ratio: Callable[[LoweringConfig, LoweringConfig], float],
) -> bool:
    """Go to the first of the fastest neighbours that is faster in turns. Returns whether there is one."""
    for one in list(fastest)[:CHALLENGERS]:
        if (gain := ratio(state.found, one)) >= GAIN:
            state.found, state.gain = one, state.gain * gain
            return True
    return False
