"""Times the programs of a cell again that two runs have left, in turns."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.core import atomic, checkout
from scripts.features.compare import comparable
from scripts.features.compare.latencies import TURNS, Estimate, measured, term
from scripts.features.compare.pairs import Pair
from scripts.matrix import stages
from scripts.records import latency_section
from scripts.records.results_file import cell_of
from scripts.supervise import in_turns, outcome
from scripts.supervise.members import VERIFICATION, Member
from scripts.timing import ratios
from scripts.timing.group import GroupTiming
from scripts.timing.turns import Rule

BEFORE, AFTER = "before", "after"


def measure(
    pair: Pair,
    folders: tuple[Path, Path],
    rule: Rule,
    said: Callable[[str], None] = lambda _: None,
) -> Estimate | str:
    """Return the change of the latency of a cell, measured now; or why it cannot be measured.

    `folders`: those in which the runs before and after were started.
    """
    rows = measured(pair)
    if rows is None:
        return "it has no latency on both sides"
    if why := comparable.difference(*rows):
        return why
    with tempfile.TemporaryDirectory(prefix="compare-") as logs:
        members = []
        for name, row, folder in zip((BEFORE, AFTER), rows, folders, strict=True):
            found = _member(name, row, folder, Path(logs))
            if isinstance(found, str):
                return f"{name}: {found}"
            members.append(found)
        return of_timing(pair.cell, in_turns.take(members, rule, said))


def of_timing(cell: str, timing: GroupTiming) -> Estimate | str:
    """Return the change between the members BEFORE and AFTER, or why there is none."""
    before, after = (timing.members[name] for name in (BEFORE, AFTER))
    for name, one in ((BEFORE, before), (AFTER, after)):
        if one.status != outcome.OK:
            return f"{name}: {one.status} ({one.reason}): {one.detail}"
    if (
        why := latency_section.doubt(timing, before, None)
        if len(before.values_ms) < ratios.LEAST
        else in_turns.unfit(timing)
    ):
        return why
    before_ms, after_ms = (math.exp(ratios.log_mean(one.values_ms)) for one in (before, after))
    terms = (term(f"{cell} again", before.values_ms, after.values_ms),)
    return Estimate(cell, TURNS, before_ms, after_ms, terms)


def _member(name: str, row: Any, folder: Path, logs: Path) -> Member | str:
    """What is timed for a row; or why that is not possible. It has the code of this checkout, and all else of its run."""
    cell = cell_of(row)
    verification = folder / stages.STAGES[stages.LAST[cell.kind]].path(cell)
    command = row["run"].get("command") or ""
    try:
        if atomic.read_json(verification / VERIFICATION)["command"] != command:
            return f"{verification} was made again since its row was written"
        made = Member.verified(name, verification, logs / f"{name}.txt", forked=False)
    except (OSError, LookupError, ValueError) as error:
        return f"{verification} cannot be read ({error})"
    module = next((one for one in shlex.split(command) if one.startswith("--module=")), "")
    path = folder / module.removeprefix("--module=")
    if module and not path.is_file():
        return f"there is no {path}"
    expected = (row["compile"] or {}).get("vmfb_bytes")
    if module and expected not in (None, path.stat().st_size):
        return f"{path} has {path.stat().st_size} bytes; its row says {expected}, so it was made again since"
    return replace(made, folder=folder, env=in_turns.with_code_of(checkout.ROOT))
