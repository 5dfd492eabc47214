"""Times a few programs in turns without a job, for commands that a person runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from scripts.supervise.members import Member, Process
from scripts.timing import ratios
from scripts.timing.group_timing import GroupTiming, latencies, part_of
from scripts.timing.turns import Group, Rule

TWIN = " again"
"""The end of the name of the control's second process."""
LOAD_S = 600.0
"""Seconds in which a program has to be loaded."""


def take(
    members: Sequence[Member], rule: Rule, said: Callable[[str], None] = lambda _: None
) -> GroupTiming:
    """Time members until each ratio to the first one is decided, for the budget of the rule at most; the first one is there
    twice, as a control.

    A member that ended, or could not be started, has the reason in its MemberTiming.
    """
    first, started = members[0], time.time()
    twin = replace(first, name=f"{first.name}{TWIN}", log=first.log.with_name("control.txt"))
    by_name = {member.name: member for member in (*members, twin)}
    group = Group(
        list(by_name),
        lambda name: _start(by_name[name]),
        rule,
        lambda timed: ratios.is_decided(latencies(timed), [first.name]),
        said,
    )
    group.run()
    part, timed = part_of(group.timed, first.name, twin.name, "", 0)
    others = group.load.others()
    return GroupTiming(
        started, rule.text(), "", timed, (part,), foreign=others.foreign, steal=others.steal
    )


def unfit(timing: GroupTiming) -> str:
    """Why ratios of these turns may be wrong: the two processes of the control differ; "" if they do not."""
    [part] = timing.parts
    ratio = ratios.paired(*part.control_ms) if part.control else None
    at = ratio.interval() if ratio else None
    if at is None or at.low <= 1 <= at.high:
        return ""
    return f"two processes of {part.control} differ by a factor of {at.ratio:.3f}: the machine was not fit"


def _start(member: Member) -> Process:
    return Process(member, os.getpid(), member.log, LOAD_S, lambda: None)
