"""Compute how often the comparison in turns is wrong, from records of benchmarks.compare_errors."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import agreement_record
from benchmarks.agreement import CELLS, SLOWER
from benchmarks.compare_errors import AFTER, BEFORE
from scripts.lib.comparison import decisions, remeasuring
from scripts.lib.comparison.latencies import ROUNDS, Estimate
from scripts.lib.comparison.settings import Settings
from scripts.lib.iree.turns import Turns
from scripts.lib.report import ratio

EQUAL = "A"


@dataclass
class Counts:
    """Cells of one kind: their verdicts, the smallest slow-downs they could have shown, and the logarithms of
    their ratios."""

    verdicts: list[str] = field(default_factory=list)
    smallest: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def share(self, *of: str) -> int:
        """The number of cells with one of these verdicts."""
        return sum(one in of for one in self.verdicts)


Found = dict[tuple[str, str], Counts]
"""The cells by condition and kind."""


def analyse(files: Sequence[Path]) -> None:
    """Print, per condition and kind of cell, the verdicts of comparisons in turns."""
    show("comparison in turns", counted(files))


def analyse_runs(files: Sequence[Path]) -> None:
    """Print the same for two runs: consecutive batches of records of benchmarks.agreement."""
    show("comparison of two runs, in rounds", counted_runs(files))


def show(title: str, found: Found) -> None:
    """Print a table of verdicts."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for column in ("condition", "compared", "size", "cells", "slower", "faster", "limit", "same", "undecided", "smallest"):  # fmt: skip
        table.add_column(column, justify="left" if column in ("condition", "compared") else "right")
    for (condition, kind), counts in found.items():
        said = "A with A" if kind == EQUAL else f"A with {kind}"
        table.add_row(condition, said, *line(kind, counts))
    console = Console(width=150)
    console.print(table)
    console.print(
        "size: geometric mean of the ratios, with a 95 % interval over cells. limit: of A with A, the upper "
        "95 % limit of the share that is called slower or faster; else the lower limit of the share that is called "
        "slower (Clopper and Pearson). smallest: median of the slow-downs that would have been found with a "
        f"probability of {decisions.POWER:.0%}"
    )


def counted(files: Iterable[Path]) -> Found:
    """Return the verdicts by condition and kind of cell. Each batch is decided as one comparison."""
    found: Found = {}
    for path in files:
        for cells in batches(json.loads(path.read_text())["taken"]):
            estimates = []
            for one in cells:
                of = remeasuring.of_turns(one["cell"], Turns.of(one["turns"]), BEFORE, AFTER)
                if isinstance(of, str):
                    raise ValueError(f"{path}: batch {one['batch']}, {one['cell']}: {of}")
                estimates.append(of)
            kinds = [(one["condition"], one["kind"]) for one in cells]
            count(found, kinds, estimates, 0.0)
    return found


def analyse_turns(folders: Sequence[Path]) -> None:
    """Print the same for modules of runs with several toolchains, each compared with itself."""
    show("modules of a run with themselves, in turns", counted_turns(folders))


def counted_turns(folders: Iterable[Path]) -> Found:
    """Return the verdicts of comparing each module of a run with itself: its blocks of successive turns are taken for
    two modules. All modules of a toolchain are decided as one comparison."""
    found: Found = {}
    for folder in folders:
        by_side: dict[str, list[Estimate]] = {}
        for path in sorted((folder / "turns").rglob("turns.json")):
            values = json.loads(path.read_text())
            if not values.get("blocks"):  # a device that is not there
                continue
            taken = Turns.of(values)
            for side in taken.sides:
                of = remeasuring.of_turns(str(path), with_itself(taken, side), BEFORE, AFTER)
                if isinstance(of, Estimate):
                    by_side.setdefault(side, []).append(of)
        for side, estimates in by_side.items():
            count(found, [(side, EQUAL)] * len(estimates), estimates, 0.0)
    return found


def with_itself(taken: Turns, side: str) -> Turns:
    """Return the blocks of one module as turns of two: in every second pair the first block comes first. A last block
    without a partner is left out."""
    own = [one for one in taken.blocks if one.side == side]
    blocks = []
    for turn, pair in enumerate(zip(own[::2], own[1::2], strict=False)):
        names = (BEFORE, AFTER) if turn % 2 == 0 else (AFTER, BEFORE)
        blocks += [
            replace(one, turn=turn, side=name) for one, name in zip(pair, names, strict=True)
        ]
    return Turns((BEFORE, AFTER), tuple(blocks))


def counted_runs(files: Iterable[Path]) -> Found:
    """Return the verdicts of comparing each batch of a record with the next one."""
    found: Found = {}
    for path in files:
        rows = agreement_record.rows_of(path)
        for condition in agreement_record.conditions([path]):
            numbers = agreement_record.batches(rows, condition)
            for first, second in pairwise(numbers):
                names = list(_cells())
                pairs = [
                    (rows[condition, first, one], rows[condition, second, other])
                    for _, one, other in names
                ]
                estimates = [_in_rounds(other, *pair) for (_, _, other), pair in zip(names, pairs, strict=True)]  # fmt: skip
                shift = statistics.median(_speed(after) - _speed(before) for before, after in pairs)
                count(found, [(condition, kind) for kind, _, _ in names], estimates, shift)
    return found


def _cells() -> Iterator[tuple[str, str, str]]:
    """Yield the pairs of cells of two batches: those of A with themselves, but for as many as there are of
    slower programs, which are compared with these."""
    slower = [(name, number) for name in list(SLOWER)[1:] for number in range(CELLS[name])]
    equal = CELLS[EQUAL] - len(slower)
    yield from ((EQUAL, f"{EQUAL}.{number}", f"{EQUAL}.{number}") for number in range(equal))
    for place, (name, number) in enumerate(slower, start=equal):
        yield name, f"{EQUAL}.{place}", f"{name}.{number}"


def _in_rounds(cell: str, before: ratio.Row, after: ratio.Row) -> Estimate:
    terms = (ratio.log_latency(before), ratio.log_latency(after))
    before_ms, after_ms = (math.exp(one.value) for one in terms)
    return Estimate(cell, ROUNDS, before_ms, after_ms, terms[1].value - terms[0].value, terms)


def _speed(row: ratio.Row) -> float:
    return statistics.fmean(math.log(seconds) for one in row for seconds in one.calibration_s)


def count(
    found: Found, kinds: Sequence[tuple[str, str]], estimates: Sequence[Estimate], shift: float
) -> None:
    """Decide one comparison, and add its verdicts to `found`."""
    settings = Settings()
    differences = [one.difference(shift) for one in estimates]
    decided = decisions.decide(differences, settings.rate, settings.matters)
    for kind, of, decision in zip(kinds, estimates, decided, strict=True):
        counts = found.setdefault(kind, Counts())
        counts.verdicts.append(decision.verdict)
        counts.smallest.append(decision.smallest)
        counts.values.append(of.value)


def batches(taken: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the cells of each batch."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for one in taken:
        found.setdefault(one["batch"], []).append(one)
    return list(found.values())


def line(kind: str, counts: Counts) -> list[str]:
    """Return the numbers of a kind of cell."""
    from scipy.special import betaincinv

    count = len(counts.verdicts)
    slower, faster = counts.share(decisions.SLOWER), counts.share(decisions.FASTER)
    wrong = slower + faster
    if kind == EQUAL:
        limit = float(betaincinv(wrong + 1, count - wrong, 0.95)) if wrong < count else 1.0
    else:
        limit = float(betaincinv(slower, count - slower + 1, 0.05)) if slower else 0.0
    return [
        size(counts.values),
        str(count),
        f"{slower} ({slower / count:.1%})",
        f"{faster} ({faster / count:.1%})",
        f"{limit:.1%}",
        *(f"{counts.share(one) / count:.0%}" for one in (decisions.SAME, decisions.UNDECIDED)),
        f"{statistics.median(counts.smallest) - 1:.1%}",
    ]


def size(values: Sequence[float]) -> str:
    """Return the geometric mean of ratios with its 95 % interval over the cells."""
    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return f"{math.expm1(mean):+.2%}"
    half = ratio.quantile(count - 1, 0.95) * statistics.stdev(values) / math.sqrt(count)
    low, high = (math.expm1(mean + off) for off in (-half, half))
    return f"{math.expm1(mean):+.2%} ({low:+.2%} to {high:+.2%})"
