"""Compare IREE with the faster of eager and inductor: one figure per lowering path.

    python -m benchmarks.geomean                          # of results/results.jsonl
    python -m benchmarks.geomean other.jsonl --json

The figure is the geometric mean over entries (models) of min(eager, inductor) / IREE. Above 1, IREE
is faster. It is printed for each lowering path and for the best path of each entry. An entry that
is missing or has no verified latency counts as 0.1, so that a path does not gain by failing.

Every baseline of the runtimes eager and inductor counts, those with `rewrites: speed` too. If a row
was rewritten for speed, the figures are printed a second time from the rows that were not.

Cross-fitting. The fastest of several noisy measurements is partly fast by chance, so a minimum over
paths, or over eager and inductor, would look faster than it is. The rows of an entry are timed in
turns, in several generations of their processes. The fastest rows are chosen by every second generation
and compared in the others, and the other way round. So the noise that decided the choice is not in the
ratio that counts. The figure is the result for a user who measures each path once and keeps the fastest.
Rows that were not timed in turns with each other are chosen by their latencies and compared through their
anchors (scripts/results/speedups.py), and a note names the entry.

Two 99 % intervals. "These entries": the entries are fixed and only the measurements are noisy. The ratio
of an entry has Student's t distribution over its generations, and the figure is the mean of
independent ones; between rows that are equally fast it holds the truth in 97 % of cases, because the
halves of the generations do not choose independently. "Entries like these": the entries are a sample of
similar models. This is Student's t interval of the logarithms; its degrees of freedom are the number of
entries minus one. It is wider, because entries differ by more than noise.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.config import plugins
from scripts.config.cell import EVAL
from scripts.config.choices import BASES
from scripts.core import exits
from scripts.iree.backends import BACKENDS
from scripts.measure.timing import ratios
from scripts.measure.timing.ratios import Difference, Interval
from scripts.results import remedied, speedups
from scripts.results.results_file import BadRecords, Record, cell_of, read
from scripts.results.speedups import Latency, machine_of

RESULTS = Path("results/results.jsonl")
FAILED = 0.1
"""The ratio of an entry without a verified latency."""
BEST = "best"
"""The name of the figure over the best lowering path of each entry."""
PLAIN = "without rewrites for speed"
"""The name of the figures over rows that were not rewritten for speed."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.geomean",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--target", default="llvm-cpu", help="whose rows (default: %(default)s)")
    parser.add_argument(
        "--without", default="conv", help="entry that a second figure leaves out (default: conv)"
    )
    parser.add_argument(
        "--entries", metavar="PATH", help=f"also a line per entry, of this path or of {BEST}"
    )
    parser.add_argument("--json", action="store_true", help="the same, and every entry, as JSON")
    args = parser.parse_args()
    try:
        records = read(args.results)
        names, everything = entries(records, args.target)
        plain, only_rewritten = as_captured(records, args.target)
        show(args, names, everything, plain, only_rewritten)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))


def show(
    args: argparse.Namespace,
    names: Sequence[str],
    everything: Sequence[Entry],
    plain: Sequence[Entry] | None,
    only_rewritten: Sequence[str],
) -> None:
    """Print the figures. `plain`, `only_rewritten`: the result of `as_captured`. Raises BadRecords."""
    found = [entry for entry in everything if entry.bases]
    if not found:
        exits.fail(f"{args.results}: no latency of {' or '.join(BASES)} to compare with")
    if args.entries and args.entries not in names:
        exits.fail(f"--entries {args.entries}: the paths are {', '.join(names)}")
    fewer = [entry for entry in found if entry.name != args.without]
    figures = {"all": [figure(found, path) for path in names]}
    figures[f"without {args.without}"] = [figure(fewer, path) for path in names] if fewer else []
    if plain is not None:
        figures[PLAIN] = [figure(plain, path) for path in names] if plain else []
    said = notes(everything) + [
        f"{name}: left out of the figures {PLAIN}; a frontend with `rewrites: needed` would have a row"
        for name in only_rewritten
    ]
    if args.json:
        print(json.dumps(as_json(args, names, found, figures, said), indent=2))
        return
    console = Console(width=110)
    console.print(table(f"{args.target}, all entries", figures.pop("all")))
    for name, of in figures.items():
        if of and (name == PLAIN or len(fewer) < len(found)):
            console.print(table(f"{args.target}, {name}", of))
    if args.entries:
        console.print(each_entry(found, args.entries))
    for note in said:
        console.print(note, highlight=False)


@dataclass(frozen=True)
class Entry:
    """A model and its rows with a latency: `bases` by baseline, `paths` by lowering path."""

    name: str
    bases: Mapping[str, Latency]
    paths: Mapping[str, Latency]


@dataclass(frozen=True)
class Compared:
    """The ratio of an entry for a path (or for the best path): its logarithm, and the same with its error (None if it has
    no interval).

    `base`, `path`: names of the rows that were chosen, one per half of the generations; None for an entry that failed.
    """

    entry: str
    log_ratio: float
    difference: Difference | None = None
    base: tuple[str, ...] | None = None
    path: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Figure:
    """The geometric mean of a path over entries; `failed` of them have no latency.

    `these`: the interval for these entries; None if a row has no interval. `like_these`: the
    interval for entries like these; None for fewer than three.
    """

    path: str
    entries: int
    failed: int
    ratio: float
    these: Interval | None
    like_these: Interval | None


def entries(records: Sequence[Record], target: str) -> tuple[list[str], list[Entry]]:
    """Return the names of the figures of a target, and its entries.

    The names are the lowering paths, and BEST if there are several. The entries are all models that
    have a row of the target or of a runtime that it is compared with, in the order of the records.
    Raises BadRecords if there is no row of the target.
    """
    rows = [one for one in records if _is_of(one, target)]
    if not rows:
        there = dict.fromkeys(one["target"] for one in records if one.is_iree)
        raise BadRecords(
            f"no row of the target {target!r}; there are: {', '.join(there) or 'none'}"
        )
    bases = [one for one in records if _is_base(one, rows[0])]
    names = list(dict.fromkeys(one["frontend"] for one in rows))
    models = dict.fromkeys(one["model"] for one in (*rows, *bases))
    found = [Entry(model, _measured(bases, model), _measured(rows, model)) for model in models]
    return ([*names, BEST] if len(names) > 1 else names), found


def as_captured(records: Sequence[Record], target: str) -> tuple[list[Entry] | None, list[str]]:
    """Return the entries by the rows that were not rewritten for speed, and the names of those left out.

    Left out are entries of which every row of the target was rewritten. The first value is None if no
    row was rewritten.
    """
    names = set(plugins.speed_rewrites())
    plain = [one for one in records if names.isdisjoint(_rewrites(one))]
    if len(plain) == len(records):
        return None, []
    every, there = (_models(of, target) for of in (records, plain))
    left = [model for model in every if model not in there]
    found = entries(plain, target)[1] if there else []
    return [entry for entry in found if entry.bases and entry.name not in left], left


def _rewrites(record: Record) -> Sequence[str]:
    """Return the names of the rewrites of a row."""
    return (record.data.get("export") or {}).get("rewrites") or ()


def _models(records: Sequence[Record], target: str) -> list[str]:
    """Return the models that have a row of a target."""
    return list(dict.fromkeys(r["model"] for r in records if _is_of(r, target)))


def _is_of(record: Record, target: str) -> bool:
    """Return whether a record is that of a forward pass by IREE for a target."""
    return record.is_iree and (record["target"], record["test"]) == (target, EVAL)


def _is_base(record: Record, row: Record) -> bool:
    """Return whether rows such as this one of IREE are compared with a record: a forward pass on the same device and machine,
    with the same number of threads."""
    device = BACKENDS[row.data["experiment"]["backend"]].torch_device
    as_iree = (record["device"], record["test"], record["precision"]) == (device, EVAL, "none")
    number, machine = (
        [of(one) for one in (record, row)]
        for of in (lambda one: cell_of(one.data).threads, lambda one: machine_of(one.data))
    )
    return (
        record["runtime"] in BASES
        and as_iree
        and number[0] == number[1]
        and machine[0] == machine[1]
    )


def _measured(records: Sequence[Record], model: str) -> dict[str, Latency]:
    """Return the rows of a model that have a latency, by frontend or by the name of the baseline.

    Raises BadRecords for a row of a version without generations.
    """
    found: dict[str, Latency] = {}
    for one in records:
        if one["model"] != model or not one.latency or remedied.by_other_path(one.data):
            continue
        if "generations" not in one.latency:
            raise BadRecords(f"{one.where}: no latency.generations; run the workflow again")
        found[one.parts[0]] = one.latency
    return found


def compared(entry: Entry, path: str) -> Compared:
    """Return min(eager, inductor) / IREE of an entry for a path, or for the best path. Raises BadRecords."""
    rows = {name: row for name, row in entry.paths.items() if path in (BEST, name)}
    if not rows:
        return Compared(entry.name, math.log(FAILED))
    if not is_in_turns(entry, rows):
        return _through_anchors(entry, rows)
    count = len(next(iter(rows.values()))["values_ms"])
    # Each generation is compared by what the other half of them chose; a single one has no other half.
    halves = [range(at % count, count, 2) for at in (1, 0)]
    chosen = [[_fastest(side, of) for of in halves] for side in (entry.bases, rows)]
    logs = []
    for at in range(count):
        base, row = (
            side[names[at % 2]] for side, names in zip((entry.bases, rows), chosen, strict=True)
        )
        logs.append(math.log(base["values_ms"][at] / row["values_ms"][at]))
    base_names, row_names = map(tuple, chosen)
    mean = statistics.fmean(logs)
    return Compared(entry.name, mean, ratios.of_logs(logs), base_names, row_names)


def is_in_turns(entry: Entry, rows: Mapping[str, Latency]) -> bool:
    """Return whether the bases and these rows were timed in turns with each other."""
    return len({row["group"] for row in (*entry.bases.values(), *rows.values())}) == 1


def _fastest(rows: Mapping[str, Latency], generations: Sequence[int]) -> str:
    """Return the name of the row that was the fastest in some generations."""
    means = {
        name: ratios.log_mean([row["values_ms"][at] for at in generations])
        for name, row in rows.items()
    }
    return min(means, key=means.__getitem__)


def _through_anchors(entry: Entry, rows: Mapping[str, Latency]) -> Compared:
    """Return the ratio of rows that were not timed in turns with each other. Raises BadRecords if they have no common anchor."""
    base, row = (sorted(of, key=lambda name: of[name]["ms"])[0] for of in (entry.bases, rows))
    if not speedups.is_comparable(entry.bases[base], rows[row]):
        raise BadRecords(
            f"{entry.name}: {base} and {row} were not timed in turns, and have no common anchor"
        )
    difference = speedups.difference(entry.bases[base], rows[row])
    # Of too few generations for an interval, there is the ratio alone, which `notes` says.
    own, other = (
        ratios.log_mean(of["anchor_ms"]) - math.log(of["ms"])
        for of in (rows[row], entry.bases[base])
    )
    log_ratio = difference.value if difference else own - other
    return Compared(entry.name, log_ratio, difference, (base,), (row,))


def figure(found: Sequence[Entry], path: str) -> Figure:
    """Return the geometric mean of a path over entries, with its intervals. Raises BadRecords."""
    each = [compared(entry, path) for entry in found]
    logs = [one.log_ratio for one in each]
    timed = [one for one in each if one.path]
    errors = [one.difference for one in timed if one.difference]
    these = like_these = None
    if errors and len(errors) == len(timed):
        spread = ratios.combined([(1 / len(each), one) for one in errors])
        these = dataclasses.replace(spread, value=statistics.fmean(logs)).interval()
    if of_sample := ratios.of_logs(logs):
        like_these = of_sample.interval()
    return Figure(
        path, len(each), len(each) - len(timed), math.exp(statistics.fmean(logs)), these, like_these
    )


def table(title: str, figures: Sequence[Figure]) -> Table:
    """Return the figures as a table."""
    shown = Table(title=title, title_style="bold")
    shown.add_column("lowering path")
    for column in ("measured", "geometric mean", "these entries", "entries like these"):
        shown.add_column(column, justify="right")
    for one in figures:
        measured = f"{one.entries - one.failed} of {one.entries}"
        intervals = (_span(one.these), _span(one.like_these))
        shown.add_row(one.path, measured, f"{one.ratio:.3f}", *intervals)
    return shown


def each_entry(found: Sequence[Entry], path: str) -> Table:
    """Return the ratio of each entry for a path as a table, the lowest first."""
    shown = Table(title=f"{path}, by entry", title_style="bold")
    for column in ("entry", "ratio", "99 %", "fastest of PyTorch", "fastest of IREE"):
        shown.add_column(column, justify="right" if column in ("ratio", "99 %") else "left")
    for one in sorted((compared(entry, path) for entry in found), key=lambda one: one.log_ratio):
        span = _span(one.difference.interval() if one.difference else None)
        chosen = (", ".join(dict.fromkeys(names or ())) for names in (one.base, one.path))
        shown.add_row(one.entry, f"{math.exp(one.log_ratio):.2f}", span, *chosen)
    return shown


def _span(interval: Interval | None) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}" if interval else "–"


def notes(found: Sequence[Entry]) -> list[str]:
    """Return the notes of a table: how to read it, and the rows that have no interval."""
    said = [
        f"min({', '.join(BASES)}) / IREE; above 1, IREE is faster. An entry without a latency is {FAILED}."
    ]
    for entry in found:
        if not entry.bases:
            said.append(f"{entry.name}: left out, as {' and '.join(BASES)} have no latency")
        elif entry.paths and not is_in_turns(entry, entry.paths):
            said.append(
                f"{entry.name}: its rows were not all timed in turns with each other; what was not is compared through anchors"
            )
        for name, row in (*entry.bases.items(), *entry.paths.items()):
            if row["generations"] < ratios.LEAST:
                said.append(
                    f"{entry.name}, {name}: {row['generations']} generations; an interval needs {ratios.LEAST}"
                )
    return said


def as_json(
    args: argparse.Namespace,
    names: Sequence[str],
    found: Sequence[Entry],
    figures: Mapping[str, Sequence[Figure]],
    said: Sequence[str],
) -> dict:
    """Return the figures and the ratios of each entry, for JSON. `said`: the notes."""
    each = [(path, compared(entry, path)) for entry in found for path in names]
    return {
        "target": args.target,
        "failed_counts_as": FAILED,
        **{name: [dataclasses.asdict(one) for one in of] for name, of in figures.items()},
        "entries": [
            {
                "entry": one.entry,
                "path": path,
                "ratio": math.exp(one.log_ratio),
                "interval": dataclasses.asdict(one.difference.interval())
                if one.difference
                else None,
                "base_chosen": one.base,
                "path_chosen": one.path,
            }
            for path, one in each
        ],
        "notes": said,
    }


if __name__ == "__main__":
    main()
