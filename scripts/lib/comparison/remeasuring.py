"""Measures cells in turns with the modules that two runs have left."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.lib.comparison import comparable, paired
from scripts.lib.comparison.latencies import TURNS, Estimate, measured
from scripts.lib.comparison.pairs import Pair
from scripts.lib.iree import turns
from scripts.lib.iree.turns import Side, TurnError, TurnRule, Turns

BEFORE, AFTER = "before", "after"


def measure(
    pair: Pair,
    folders: tuple[Path, Path],
    rule: TurnRule,
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
    sides = []
    for name, row, folder in zip((BEFORE, AFTER), rows, folders, strict=True):
        side = _side(name, row, folder)
        if isinstance(side, str):
            return f"{name}: {side}"
        sides.append(side)
    try:
        found = turns.take(sides, rule, rows[1]["run"]["threads"] or 1, said)
    except (TurnError, OSError) as error:
        return str(error)
    return of_turns(pair.cell, found, BEFORE, AFTER)


def of_turns(cell: str, found: Turns, before: str, after: str) -> Estimate | str:
    """Return the change between two of the modules that were measured in turns, or why there is none."""
    try:
        of = paired.estimate(paired.log_ratios(found, before, after))
    except ValueError as error:
        return str(error)
    before_ms, after_ms = (paired.median_ms(found, side) for side in (before, after))
    return Estimate(cell, TURNS, before_ms, after_ms, of.value, (of,))


def _side(name: str, row: Any, folder: Path) -> Side | str:
    """What is timed for a row; or why that is not possible."""
    command = row["run"].get("command")
    if not command:
        return "its row has no command of iree-benchmark-module"
    module = next((one for one in shlex.split(command) if one.startswith("--module=")), "")
    path = folder / module.removeprefix("--module=")
    if not path.is_file():
        return f"there is no {path}"
    expected = (row["compile"] or {}).get("vmfb_bytes")
    if expected not in (None, path.stat().st_size):
        return f"{path} has {path.stat().st_size} bytes; its row says {expected}, so it was made again since"
    return Side(name, command, folder, row["latency"]["median_ms"] / 1e3)
