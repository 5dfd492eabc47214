"""Times programs in turns: those of a cell that two runs have left, and those of a bisection."""

from __future__ import annotations

import math
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path

from scripts.core import atomic, checkout
from scripts.features.compare import pairs
from scripts.features.compare.latencies import TURNS, Estimate, term
from scripts.features.compare.pairs import Pair, Record
from scripts.matrix import stages
from scripts.records import latency_section
from scripts.records.results_file import cell_of
from scripts.supervise import in_turns, outcome
from scripts.supervise.members import VERIFICATION, Member
from scripts.timing import ratios
from scripts.timing.group_timing import GroupTiming
from scripts.timing.turns import Rule

BEFORE, AFTER = "before", "after"


class NotMeasured(Exception):
    """A program that cannot be timed, or was not. Says why."""


def measure(pair: Pair, folders: tuple[Path, Path], rule: Rule) -> Estimate:
    """Return the change of the latency of a cell, measured now. Raises NotMeasured.

    `folders`: those in which the runs before and after were started.
    """
    if pair.measured is None:
        raise NotMeasured("it has no latency on both sides")
    if why := pairs.difference(*pair.measured, but=pairs.OF_MODEL):
        raise NotMeasured(why)
    sides = [*zip((BEFORE, AFTER), pair.measured, folders, strict=True)]
    with tempfile.TemporaryDirectory(prefix="compare-") as logs:
        members = [_member(name, row, folder, Path(logs)) for name, row, folder in sides]
        return of_timing(pair, in_turns.take(members, rule))


def check(timing: GroupTiming) -> None:
    """Raise NotMeasured if a member has ended otherwise than it should."""
    for name, member in timing.members.items():
        if member.status != outcome.OK:
            raise NotMeasured(f"{name}: {member.status} ({member.reason}): {member.detail}")


def of_timing(pair: Pair, timing: GroupTiming) -> Estimate:
    """Return the change between the members BEFORE and AFTER. Raises NotMeasured."""
    check(timing)
    before, after = (timing.members[name] for name in (BEFORE, AFTER))
    is_short = len(before.values_ms) < ratios.LEAST
    if why := latency_section.doubt(timing, before, None) if is_short else in_turns.unfit(timing):
        raise NotMeasured(why)
    before_ms, after_ms = (
        math.exp(ratios.log_mean(member.values_ms)) for member in (before, after)
    )
    terms = (term(f"{pair.cell} again", before.values_ms, after.values_ms),)
    return Estimate(pair, TURNS, before_ms, after_ms, terms)


def _member(name: str, row: Record, folder: Path, logs: Path) -> Member:
    """What is timed for a row: it has the code of this checkout, and all else of its run. Raises NotMeasured."""
    cell = cell_of(row)
    verification = folder / stages.STAGES[stages.LAST[cell.kind]].path(cell)
    command = row["run"].get("command") or ""
    try:
        if atomic.read_json(verification / VERIFICATION)["command"] != command:
            raise NotMeasured(f"{name}: {verification} was made again since its row was written")
        member = Member.verified(name, verification, logs / f"{name}.txt", forked=False)
    except (OSError, LookupError, ValueError) as error:
        raise NotMeasured(f"{name}: {verification} cannot be read ({error})") from error
    module = next((word for word in shlex.split(command) if word.startswith("--module=")), "")
    if module:
        path = folder / module.removeprefix("--module=")
        if not path.is_file():
            raise NotMeasured(f"{name}: there is no {path}")
        size, expected = path.stat().st_size, (row["compile"] or {}).get("vmfb_bytes")
        if expected not in (None, size):
            raise NotMeasured(
                f"{name}: {path} has {size} bytes; its row says {expected}, so it was made again since"
            )
    return replace(member, folder=folder, env=checkout.variables())
