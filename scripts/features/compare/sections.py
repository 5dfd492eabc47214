"""A comparison as sentences and tables, the same on the screen and in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.features.compare.amounts import BY_KEY, AmountChange
from scripts.features.compare.compare import Comparison
from scripts.features.compare.decisions import FASTER, POWER, SAME, SLOWER, UNDECIDED
from scripts.features.compare.latencies import LatencyChange
from scripts.features.compare.means import ALL
from scripts.features.compare.outcomes import GONE, KINDS, NEW
from scripts.records.wording import milliseconds

BY_ANCHOR = "By anchor: the ratio is that of the speed-ups over the anchor; the milliseconds are of different times."
SHOWN = 40
"""Rows of a table of undecided or unchanged latencies."""


@dataclass(frozen=True)
class Section:
    """A table. `note`: what its columns mean. `right`: the columns with numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()
    note: str = ""


def summary(found: Comparison) -> list[str]:
    """Return the result in a few sentences, the most important first."""
    counts = Counter(one.verdict for one in found.latencies)
    kinds = Counter(one.kind for one in found.outcomes)
    said = [f"{found.cells} cells in both: {found.unchanged} with the same outcome"]
    said[0] += "".join(f", {kinds[kind]} {kind}" for kind in KINDS if kinds[kind])
    if found.latencies:
        words = [f"{counts[verdict]} {verdict}" for verdict in (SLOWER, FASTER, SAME, UNDECIDED)]
        said.append(f"{len(found.latencies)} latencies compared: {', '.join(words)}")
    if found.not_compared:
        said.append(f"{len(found.not_compared)} latencies not compared")
    for mean in found.means:
        if mean.by == ALL:
            said.append(f"geometric mean of the ratios after / before: {_ratio(mean.ratio, mean.low, mean.high)}")  # fmt: skip
    said.append(f"{len(found.alarms)} changes for the worse" if found.alarms else "no change for the worse")  # fmt: skip
    return said


def sections(found: Comparison, with_all: bool = False) -> list[Section]:
    """Return the tables that have rows. `with_all`: also latencies of which no change was found."""
    shown = [one for one in found.latencies if one.verdict in (SLOWER, FASTER)]
    rest = [one for one in found.latencies if one.verdict not in (SLOWER, FASTER)]
    undecided = [one for one in rest if with_all or one.verdict == UNDECIDED]
    made = [
        _versions(found),
        _outcomes(found, with_all),
        _latencies("Latency", sorted(shown, key=lambda one: -one.ratio), _level(found)),
        _amounts(found.amounts),
        _means(found),
        _latencies(
            "Latencies of which no change was found" if with_all else "Undecided latencies",
            sorted(undecided, key=lambda one: -one.smallest)[: None if with_all else SHOWN],
            f"Smallest: the slow-down that would have been found with a probability of {POWER:.0%}. {BY_ANCHOR}",
        ),
        _not_compared(found, with_all),
    ]
    return [one for one in made if one.rows]


def ratio(one: LatencyChange) -> str:
    """Return `1.12 (1.05 to 1.19)`."""
    return _ratio(one.ratio, one.low, one.high)


def amount(one: AmountChange) -> str:
    """Return `1.53 × (2.1 s before, 3.2 s after)`."""
    of = BY_KEY[one.key]
    factor = f"{one.ratio:.2f} × " if one.ratio is not None else ""
    unit = f" {of.unit}" if of.unit else ""
    before, after = map(_number, (one.before, one.after))
    return f"{factor}({before}{unit} before, {after}{unit} after)"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _ratio(value: float, low: float, high: float) -> str:
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _level(found: Comparison) -> str:
    """What the columns mean."""
    return (
        f"Ratio: after / before, with an interval that excludes 1 exactly for the cells that differ at a rate of false "
        f"discoveries of {found.settings.rate:.0%} over all cells (Benjamini and Hochberg). {BY_ANCHOR}"
    )


def _versions(found: Comparison) -> Section:
    rows = tuple((one.name, one.before, one.after, str(one.rows)) for one in found.versions)
    return Section("Versions and options", ("what", "before", "after", "rows"), rows, (3,))


def _outcomes(found: Comparison, with_all: bool) -> Section:
    """The changes of outcomes. Cells that only one side has are listed without their models, unless `with_all`."""
    rows, alike = [], Counter[tuple[str, str, str, str]]()
    for one in found.outcomes:
        if with_all or one.kind not in (GONE, NEW):
            rows.append((one.kind, one.cell, one.before, one.after, one.detail))
        else:
            path = one.cell.partition("/")[2]
            alike[one.kind, path, one.before, one.after] += 1
    for (kind, path, before, after), count in alike.items():
        rows.append((kind, f"{count} × */{path}", before, after, ""))
    return Section("Outcomes", ("change", "cell", "before", "after", "detail"), tuple(rows))


def _latencies(title: str, changes: Sequence[LatencyChange], note: str) -> Section:
    rows = tuple(
        (
            one.verdict,
            one.cell,
            milliseconds(one.before_ms),
            milliseconds(one.after_ms),
            ratio(one),
            f"{one.q:.2g}",
            f"{one.smallest:.3f}",
            one.basis,
        )
        for one in changes
    )
    head = ("change", "cell", "before, ms", "after, ms", "ratio", "q", "smallest", "measured")
    return Section(title, head, rows, (2, 3, 4, 5, 6), note)


def _amounts(changes: Sequence[AmountChange]) -> Section:
    rows = tuple(
        ("worse" if one.worse else "better", BY_KEY[one.key].words, one.cell, amount(one))
        for one in changes
    )
    return Section("Compilation, memory, size and error", ("change", "what", "cell", "ratio"), rows)


def _means(found: Comparison) -> Section:
    rows = tuple(
        (f"{one.by} {one.name}".strip(), str(one.cells), _ratio(one.ratio, one.low, one.high))
        for one in found.means
    )
    note = (
        "Geometric means of latency after / latency before, with 99 % intervals of each mean alone."
    )
    return Section("Means", ("over", "cells", "ratio"), rows, (1, 2), note)


def _not_compared(found: Comparison, with_all: bool) -> Section:
    """The cells with a reason. Those of several models with the same reason are listed without their models, unless
    `with_all`."""
    alike = Counter((one.cell.partition("/")[2], one.why) for one in found.not_compared)
    rows: dict[tuple[str, str], None] = {}
    for one in found.not_compared:
        path = one.cell.partition("/")[2]
        count = 1 if with_all else alike[path, one.why]
        rows[f"{count} × */{path}" if count > 1 else one.cell, one.why] = None
    return Section("Latencies not compared", ("cell", "why"), tuple(rows))
