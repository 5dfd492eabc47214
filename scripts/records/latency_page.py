"""Write results/latency.md: the results table, and the hardware and versions that were used.

The same rows give the same page, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from scripts.records import markdown, wording
from scripts.records.markdown import text
from scripts.records.provenance import Provenance
from scripts.records.results_table import Column, Row, Table, Timing

INTERVALS = """\
Milliseconds of a call that nothing disturbed and, in brackets, the 99 % interval (docs/timing.md says how they are found).
**Bold**: the fastest of a model on a device, and every latency that cannot be told from it, because the interval of their
ratio contains 1. Rows of a model are timed in turns, so ratios are known better than latencies: intervals of latencies may
overlap where that of the ratio does not contain 1.
"""
NO_INTERVALS = """\
Milliseconds of a call that nothing disturbed (docs/timing.md). There are no intervals, as no row was timed in 3 generations, and
so nothing is called the fastest.
"""
MEANS = """\
Geometric means of the speed-up, a number above 1 being faster, with 99 % intervals: of the errors of these measurements, not of
the choice of models. They are over the verified rows, or over as many rows as they say. A row that was not measured is in no
mean, so means of different rows do not compare.
"""


def page(table: Table) -> str:
    """Return the whole page as Markdown."""
    of = table.provenance
    when = f"\nMeasured {of.when}.\n" if of.when else ""
    doubts = "".join(f"- {text(one)}\n" for one in wording.doubts(table))
    parts = [f"# Latencies\n\n{wording.title(table)}.\n{when}", _latencies(table)]
    if doubts:
        parts.append(f"{wording.DOUBTFUL}: the ratios of this latency are doubtful:\n\n{doubts}")
    sections = {
        "Geometric means": _means(table),
        "Not measured": "".join(f"- {text(wording.absent(one))}\n" for one in table.absent),
        "Models": _models(of),
        "Configuration": "".join(f"- {line}\n" for line in _configuration(of)),
        "Measured with": "".join(f"- {text(line)}\n" for line in (*of.where, *of.with_what)),
    }
    parts += [f"## {name}\n\n{body}" for name, body in sections.items() if body]
    return "\n".join(parts)


def _latencies(table: Table) -> str:
    head = ["model", *(text(wording.path(column)) for column in table.columns)]
    rows = [
        [text(row.label), *(_cell(row, column) for column in table.columns)] for row in table.rows
    ]
    shown = markdown.table(head, rows, right=range(1, len(head)))
    said = INTERVALS if table.has_intervals else NO_INTERVALS
    return f"{said}{wording.NOT_IN_MATRIX}: not in the matrix.\n\n{shown}"


def _cell(row: Row, column: Column) -> str:
    entry = row.entries.get(column)
    if entry is None:
        return wording.NOT_IN_MATRIX
    if entry.timing is None:
        return text(wording.failure(entry))
    shown = _timing(entry.timing)
    return f"**{shown}**" if column in row.fastest else shown


def _timing(timing: Timing) -> str:
    ends = timing.ends_ms
    shown = " ({} to {})".format(*map(wording.milliseconds, ends)) if ends else ""
    return f"{wording.milliseconds_of(timing)}{shown}"


def _means(table: Table) -> str:
    if not table.means:
        return ""
    head = ["of", "verified", *(f"over {wording.BASE_NAMES[n]}" for n in table.bases)]
    rows = [
        [
            text(wording.path(mean.column, mean.test)),
            wording.verified(mean),
            *(wording.speedup(mean.over[n], mean) for n in table.bases),
        ]
        for mean in table.means
    ]
    return f"{MEANS}\n{markdown.table(head, rows, right=range(1, len(head)))}"


def _models(of: Provenance) -> str:
    rows = [[text(name), text(options)] for name, options in of.models.items()]
    return markdown.table(["model", "options"], rows)


def _configuration(of: Provenance) -> Iterator[str]:
    """Yield the options of each entry of the configuration; an entry may have several variants."""
    for kind, entries in of.entries.items():
        for name, shown in entries.items():
            yield f"{kind}: {text(name)}: {text('; '.join(shown))}"
