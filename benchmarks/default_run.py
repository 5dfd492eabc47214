"""Print the times of the last run by stage and by parallel stages, and how well its speed-ups are known.

    snakemake --cores 2 results/latency.csv && python -m benchmarks.default_run

It reads the journal and the rows of the run and starts nothing. See docs/performance.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from scripts.config.choices import BASES
from scripts.core import exits
from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import UNDECIDED, Interval
from scripts.results import results_file, screen
from scripts.supervise import journal, outcome

JOURNAL = Path("results/logs/journal.jsonl")
BESIDE = ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.default_run", description=__doc__)
    parser.add_argument("--journal", type=Path, default=JOURNAL)
    parser.add_argument("--results", type=Path, default=Path("results/results.jsonl"))
    parser.add_argument(
        "--target", default="llvm-cpu", help="whose speed-ups (default: %(default)s)"
    )
    args = parser.parse_args()
    begun, entries = last_run(args.journal)
    account = journal.of_last_run(args.journal, max(e["end"] for e in entries))
    assert account is not None  # there are entries
    console = Console(width=120)
    console.print(screen.seconds(account))
    console.print(split(begun, entries))
    console.print(*figures(args.results, args.target))


def last_run(path: Path) -> tuple[float, list[dict]]:
    """When the last run of a journal began, and the lines of its stages."""
    begun = time.time()
    entries: list[dict] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if "run" in entry:
            begun, entries = entry["start"], []
        else:
            entries.append(entry)
    if not entries:
        raise SystemExit(f"{path}: the last run in it ran no stage; run one first")
    return begun, entries


def split(begun: float, entries: Sequence[dict]) -> Table:
    """Wall time by what ran: a measurement alone, or other stages and how many of them."""
    end = max(e["end"] for e in entries)
    environments = max((e["end"] for e in entries if e["stage"] == "env"), default=begun)
    spans = [span for entry in entries for span in _spans(entry)]
    edges = {begun, end, environments, *(t for _, a, b in spans for t in (a, b))}
    seconds: dict[str, float] = defaultdict(float)
    for a, b in itertools.pairwise(sorted(edge for edge in edges if begun <= edge <= end)):
        now = [what for what, start, stop in spans if start <= a < stop]
        alone = next((what for what in now if what != BESIDE), None)
        what = alone or f"{len(now)} at the same time"
        seconds["until the environments are made" if a < environments else what] += b - a
    table = _titled(f"{end - begun:.0f} s of wall time", "what ran", "s")
    for what, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        table.add_row(what, f"{spent:.0f}")
    return table


def figures(results: Path, target: str) -> list[Table]:
    """The tables of a run: half-widths and verdicts of the speed-ups of a target, and its groups. Exits if there is none."""
    try:
        timed = [one for one in results_file.read(results) if one.latency]
    except (results_file.BadRecords, OSError) as error:
        exits.fail(str(error))
    rows = [one.data for one in timed if one.is_iree and one["target"] == target]
    if not rows:
        exits.fail(f"{results}: no row of the target {target!r} has a latency")
    title = f"speed-ups of {len(rows)} rows on {target}"
    table = _titled(title, "over", "rows", "intervals", "half-width", "90 %", "within 5 %", *ratios.VERDICTS)  # fmt: skip
    undecided = _titled("not decided", "row", "over", "speed-up", "half-width", "why")
    decided = every = 0
    for base in BASES:
        of_base = [(one, _interval(one["latency"], f"speedup_vs_{base}")) for one in rows if one["latency"][f"speedup_vs_{base}"]]  # fmt: skip
        widths = [at.half_width for _, at in of_base if at]
        said = [at.verdict if at else UNDECIDED for _, at in of_base]
        narrow = sum(width <= math.log(ratios.SAME) for width in widths)
        ends = [f"{np.quantile(widths, at):.1%}" if widths else "–" for at in (0.5, 0.9)]
        counts = (said.count(verdict) for verdict in ratios.VERDICTS)
        table.add_row(base, str(len(said)), str(len(widths)), *ends, str(narrow), *map(str, counts))
        every, decided = every + len(said), decided + len(said) - said.count(UNDECIDED)
        for (one, at), verdict in zip(of_base, said, strict=True):
            if verdict == UNDECIDED:
                ratio, why = one["latency"][f"speedup_vs_{base}"], one["latency"]["doubt"]
                width = f"{at.half_width:.1%}" if at else "–"
                undecided.add_row(str(results_file.cell_of(one)), base, f"{ratio:.2f}", width, why)
    table.caption = f"decided or the same: {decided} of {every}"
    return [
        table,
        undecided,
        _groups([one.data["latency"] for one in timed], results.parent / "time"),
    ]


def _groups(timed: Sequence[Mapping[str, Any]], folder: Path) -> Table:
    """A line per group: its control, and what else the machine did; below, the seconds of groups."""
    table = _titled("groups", "group", "rows", "generations", "control", f"{ratios.CONFIDENCE:.0%}", "differs", "foreign", "steal")  # fmt: skip
    wrong = 0
    names = [one["group"] for one in timed if one["group"]]
    of_group = {one["group"]: one for one in timed}
    for name in dict.fromkeys(names):
        one = of_group[name]
        at = _interval(one, "control")
        differs = at is not None and not at.low <= 1 <= at.high
        wrong += differs
        ratio = f"{at.ratio:.3f}" if at else "–"
        shown = (ratio, _span(at), "yes" if differs else "", f"{one['foreign']:.0%}", f"{one['steal']:.0%}")  # fmt: skip
        table.add_row(name, str(names.count(name)), str(one["generations"]), *shown)
    seconds = {
        str(path.parent.relative_to(folder)): used.seconds
        for path in folder.glob(f"*/*/*/{outcome.STATUS}")
        if (used := outcome.read_usage(path))
    }
    longest = sorted(seconds, key=seconds.__getitem__, reverse=True)
    table.caption = (
        f"controls whose interval excludes 1: {wrong} of {len(of_group)}. Seconds of all jobs: {sum(seconds.values()):.0f}; "
        f"by group: {', '.join(f'{name} {seconds[name]:.0f}' for name in longest)}"
    )
    return table


def _interval(latency: Mapping[str, Any], name: str) -> Interval | None:
    """The interval of a ratio of a latency; None if it has none."""
    ends = [latency[key] for key in (f"{name}_low", f"{name}_high")]
    ratio = latency["control_ratio" if name == "control" else name]
    return Interval(ratio, *ends) if None not in ends else None


def _span(at: Interval | None) -> str:
    return f"{at.low:.3f} to {at.high:.3f}" if at else ""


def _titled(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_style="bold", caption_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _spans(entry: dict) -> list[tuple[str, float, float]]:
    """When a stage worked at the same time as others, and when exclusively: (what, from, to).

    It waited between the two, or, where it was not timed, before it began.
    """
    start, end, waited = entry["start"], entry["end"], entry.get("waited_s", 0.0)
    alone = entry.get("alone_s", 0.0)
    if not alone:
        return [(BESIDE, start + waited, end)]
    return [
        (BESIDE, start, end - alone - waited),
        (f"{entry['stage']}, alone", end - alone, end),
    ]


if __name__ == "__main__":
    main()
