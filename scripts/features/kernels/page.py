"""Write results/kernels.md: plots, geometric means and GB/s of every kernel. The same rows give the same page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scripts.features.kernels.table import Kernels, KernelTable, Record, Share, mean_of
from scripts.records import markdown, remedied, wording
from scripts.records.markdown import text
from scripts.records.results_table import Column, Table
from scripts.timing.machine_limits import PRODUCT, TRIAD, MachineLimits

RATES = """\
1e9 bytes per second: the bytes that a call has to read and write, divided by its latency. In brackets the 99 % interval.
"""
MEANS = """\
Geometric means over the shapes of all kernels, with 99 % intervals of the errors of these measurements. *Verified*: rows
with the right results, of all rows; a row without a latency is in no mean, so means of different rows do not compare.
*Bandwidth*: the share of the machine's bandwidth that is reached, as geometric mean and at most.
"""


def page(found: Kernels, limits: Sequence[MachineLimits]) -> str:
    """Return the whole page as Markdown."""
    of = found.table.provenance
    when = f"\nMeasured {of.when}.\n" if of.when else ""
    sections = {
        "Geometric means": f"{MEANS}\n{_means(found.table, found.shares)}",
        f"Doubts ({wording.DOUBTFUL})": "".join(
            f"- {text(one)}\n" for one in wording.doubts(found.table)
        ),
        "What the machine can do": "".join(_limits(limits)),
        "Not measured": "".join(f"- {text(wording.absent(one))}\n" for one in found.table.absent),
        "Measured with": "".join(f"- {text(line)}\n" for line in (*of.where, *of.with_what)),
    }
    parts = [f"# Kernels\n\n{wording.title(found.table)}.\n{when}"]
    parts += [f"## {name}\n\n{body}" for name, body in sections.items() if body]
    parts += [f"## GB/s\n\n{RATES}", *map(_kernel, found.each)]
    return "\n".join(parts)


def _means(table: Table, shares: Mapping[Column, Share]) -> str:
    head = ["of", "verified", *(f"over {wording.BASE_NAMES[n]}" for n in table.bases), "bandwidth"]
    rows = [[text(name), *cells] for name, *cells in mean_rows(table, shares)]
    return markdown.table(head, rows, right=range(1, len(head)))


def mean_rows(table: Table, shares: Mapping[Column, Share]) -> Iterator[list[str]]:
    """Yield, for each column: its name, its verified rows of all, its mean speed-ups over eager and inductor,
    and its share of the bandwidth."""
    for column in table.columns:
        entries = [row.entries[column] for row in table.rows if column in row.entries]
        timed = sum(entry.timing is not None for entry in entries)
        mean = mean_of(table, column)
        over = [wording.speedup(mean.over[n], mean) if mean else "" for n in table.bases]
        yield [wording.path(column), f"{timed} of {len(entries)}", *over, share(shares.get(column))]


def share(one: Share | None) -> str:
    """Return `41 % (at most 78 %)`, or "" if it is not known."""
    return f"{one.mean:.0%} (at most {one.largest:.0%})".replace("%", " %") if one else ""


def _kernel(one: KernelTable) -> str:
    columns = one.table.columns
    head = ["shape", *(text(wording.path(column)) for column in columns)]
    rows = [
        [text(one.shape(row.model)), *(_cell(one.entries.get((row.model, c))) for c in columns)]
        for row in one.table.rows
    ]
    shown = markdown.table(head, rows, right=range(1, len(head)))
    means = f"\n{_means(one.table, one.shares)}" if one.table.means else ""
    return f"### {one.name}\n\n![GB/s of {one.name}](kernels/{one.name}.svg)\n\n{shown}{means}"


def _cell(record: Record | None) -> str:
    if record is None:
        return wording.NOT_IN_MATRIX
    of = record["kernel"]
    if of["gb_per_s"] is None or remedied.by_other_path(record):
        ended = remedied.of_path(record)
        return text("skipped" if ended["status"] == "skipped" else ended["reason"])
    doubt = wording.DOUBTFUL if record["latency"]["doubt"] else ""
    ends = ""
    if of["gb_per_s_low"] is not None:
        ends = f" ({of['gb_per_s_low']:.3g} to {of['gb_per_s_high']:.3g})"
    return f"{doubt}{of['gb_per_s']:.3g}{ends}"


def _limits(limits: Sequence[MachineLimits]) -> Iterator[str]:
    for one in limits:
        threads = f", {one.threads} threads" if one.threads else ""
        yield f"{text(one.device_name)}{threads}: {one.gb_per_s:.3g} GB/s from memory.\n\n"
        head = ["program", "dtype", "through", "size", "fastest call"]
        units = {TRIAD: "GB/s", PRODUCT: "GFLOP/s"}
        sizes = {TRIAD: "{:.3g} MB", PRODUCT: "{0}×{0}×{0}"}
        rows = [
            [
                s.what,
                s.dtype,
                s.through,
                sizes[s.what].format(s.size / 1e6 if s.what == TRIAD else s.size),
                f"{s.rate:.3g} {units[s.what]}",
            ]
            for s in one.samples
        ]
        yield markdown.table(head, rows, right=(3, 4))
        if one.doubts:
            yield "\n" + "".join(f"- {text(doubt)}\n" for doubt in one.doubts)
