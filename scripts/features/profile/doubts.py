"""Says why profiles may be wrong, or may not be compared with each other: then nothing is recommended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scripts.features.profile.profile_files import IREE, Profiles
from scripts.records.wording import milliseconds
from scripts.timing import ratios

AGREES = 1.5
"""How much slower or faster than its row a program may be while it is profiled."""
MOVED = 1.5
"""How much the control of a profile may differ from round to round."""
BUSY = 0.2
"""The share of the cores that other processes may use."""
NAMES = {IREE: "IREE"}


def doubts(profiles: Profiles) -> list[str]:
    """Sentences about what speaks against the profiles of a cell; none if nothing does."""
    every = {IREE: profiles.iree, **profiles.torch}
    said = [
        text for name, profile in every.items() for text in _of_profile(profiles, name, profile)
    ]
    return said + list(_of_rows(profiles))


def _of_profile(profiles: Profiles, runtime: str, profile: Mapping[str, Any]) -> Iterator[str]:
    name = NAMES.get(runtime, runtime)
    if "control_ms" not in profile:
        yield f"the profile of {name} is of an older version, without a control: make it again (--forcerun)"
        return
    low, high = min(profile["control_ms"]), max(profile["control_ms"])
    if high / low > MOVED:
        yield f"the same calls of {name} took {milliseconds(low)} to {milliseconds(high)} ms while it was profiled"
    if profile["foreign"] > BUSY:
        yield f"other processes used {profile['foreign']:.0%} of the cores while {name} was profiled"
    row_ms = profiles.row_ms(runtime)
    if row_ms and not 1 / AGREES <= profile["call_ms"] / row_ms <= AGREES:
        yield f"{name} took {milliseconds(profile['call_ms'])} ms where it was profiled, and {milliseconds(row_ms)} ms in its row"


def _of_rows(profiles: Profiles) -> Iterator[str]:
    """Why the rows do not say how the runtimes compare, if they were timed."""
    own = profiles.values_ms.get(IREE, ())
    for runtime in profiles.torch:
        base = profiles.values_ms.get(runtime, ())
        if not own and not base:
            continue
        known = ratios.paired(base, own) if len(base) == len(own) else None
        if known is None or not known.interval().is_known:
            yield f"the rows of IREE and {runtime} do not say how they compare: {_timed(own)} and {_timed(base)}"


def _timed(values_ms: tuple[float, ...]) -> str:
    return f"{len(values_ms)} generation{'s' * (len(values_ms) != 1)}"
