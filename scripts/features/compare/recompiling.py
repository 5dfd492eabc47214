"""Compiles the programs of cells again, before and after in turns, to compare the CPU time of iree-compile."""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path
from typing import Any

from scripts.core import atomic
from scripts.features.compare import pairs
from scripts.features.compare.latencies import TURNS, Estimate, term
from scripts.features.compare.pairs import Pair, Record
from scripts.features.compare.remeasuring import AFTER, BEFORE, NotMeasured
from scripts.features.reproduce import case as cases
from scripts.records.results_file import cell_of
from scripts.timing import ratios

ROUNDS = (5, 24)
"""The fewest and the most compilations of each program. An interval needs ratios.LEAST."""


def rounds(pair: Pair, budget_s: float) -> int:
    """How often both programs are compiled: as often as the seconds of both rows fit into the budget, within ROUNDS. It
    is known before the first compilation, so that what is measured does not decide when to stop."""
    seconds = sum(row["compile"]["compile_s"] for row in pair.both or ())
    return max(ROUNDS[0], min(ROUNDS[1], int(budget_s / max(seconds, 0.1))))


def is_compiled(pair: Pair) -> bool:
    """Whether both sides have a program that iree-compile has compiled."""
    return bool(pair.both) and all((row["compile"] or {}).get("cpu_s") for row in pair.both or ())


def measure(pair: Pair, folders: tuple[Path, Path], count: int) -> Estimate:
    """Return the change of the CPU time of iree-compile over `count` rounds, each of both programs in random order. Raises
    NotMeasured and NoCase.

    CPU time changes less with other work on the machine than seconds do, and turns take most of that away.
    `folders`: those in which the runs before and after were started.
    """
    assert pair.both is not None
    if why := pairs.difference(*pair.both, but=pairs.OF_MODEL):
        raise NotMeasured(why)
    sides = [*zip((BEFORE, AFTER), pair.both, folders, strict=True)]
    milliseconds: dict[str, list[float]] = {BEFORE: [], AFTER: []}
    # Only the order is random.
    order = random.Random(pair.cell)
    with tempfile.TemporaryDirectory(prefix="recompile-") as scratch:
        for _ in range(count):
            order.shuffle(sides)
            for name, row, folder in sides:
                milliseconds[name].append(1000 * _cpu_s(name, row, folder, Path(scratch)))
    before, after = milliseconds[BEFORE], milliseconds[AFTER]
    turns = (term(f"{pair.cell} compiled again", before, after),)
    before_ms, after_ms = (math.exp(ratios.log_mean(values)) for values in (before, after))
    return Estimate(pair, TURNS, before_ms, after_ms, turns)


def _cpu_s(name: str, row: Record, folder: Path, scratch: Path) -> float:
    """Compile the program of a row as its run did, and return the CPU time of iree-compile in seconds. Raises
    NotMeasured if the module is not the row's."""
    if row.get("remedy"):
        raise NotMeasured(f"{name}: compiled by the remedy {row['remedy']['name']}")
    stage = cases.recorded(folder, cases.COMPILE, str(cell_of(row)))
    vmfb, report, log = (scratch / file for file in ("module.vmfb", "report.json", "log.txt"))
    changed = {"--out-vmfb": [str(vmfb)], "--out-report": [str(report)]}
    words = [
        word for key, values in {**stage.options, **changed}.items() for word in (key, *values)
    ]
    if stage.run("scripts.stages.compile_iree", words, log):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise NotMeasured(f"{name}: it does not compile any more: {(lines or ['no message'])[-1]}")
    compiled: dict[str, Any] = atomic.read_json(report)
    size, expected = compiled["vmfb_bytes"], row["compile"]["vmfb_bytes"]
    if size != expected:
        raise NotMeasured(
            f"{name}: it compiles to {size} bytes, and its row says {expected}, so the program or the "
            f"environment was made again since"
        )
    return float(compiled["cpu_s"])
