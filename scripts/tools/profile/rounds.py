"""Profiles a program in rounds: calls without a profiler, then profiled ones.

The calls without a profiler are the control. They are the same in every round, and the same as those of the program's row: where they
differ, something has disturbed the profile (account.doubts).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from scripts.core.machine import load_watched

ROUNDS = 4
"""Rounds of a profile. The one whose profiled calls were fastest counts: other work only adds time to a call."""

Profile = TypeVar("Profile")


def profiled(
    plain_ms: Callable[[], float], take: Callable[[], tuple[Profile, float]]
) -> tuple[Profile, dict[str, Any]]:
    """Take a profile. `plain_ms`: make some calls without a profiler; the milliseconds of an undisturbed one. `take`: make
    some with it; their profile, and the milliseconds of one of them.

    Returns the profile of the round that was disturbed least, and what profile.json says about the rounds: `call_ms` and `profiled_ms`, milliseconds of
    a call without and with the profiler; `control_ms`, the former in each round and after the last one; `foreign` and `load`, as
    in GroupTiming.
    """
    control_ms, profiles = [], []
    with load_watched() as load:
        for _ in range(ROUNDS):
            control_ms.append(plain_ms())
            profiles.append(take())
        control_ms.append(plain_ms())
    profile, profiled_ms = min(profiles, key=lambda pair: pair[1])
    return profile, {
        "call_ms": min(control_ms),
        "profiled_ms": profiled_ms,
        "control_ms": control_ms,
        "foreign": load.others().foreign,
        "load": load.average,
    }
