"""Numbers and sentences of the results table, the same on the screen and in results/latency.md."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence

from scripts.core.commands import shown
from scripts.results.results_table import Absent, Mean, Speedup, Table
from scripts.results.row import Column, Timing

DOUBTFUL = "†"
"""Before a latency with a doubt."""
NOT_IN_MATRIX = "–"
NO_INTERVAL, UNKNOWN = "?", "unknown"
"""In place of a ratio, and after a latency, that has no interval; and in place of a value whose interval is wider than ±50 %."""
BASE_NAMES = ("eager", "the faster of eager and inductor")
"""Names of the bases of the geometric means (results_table.BASES)."""
DETAIL_CHARS = 100


def milliseconds(value: float) -> str:
    """Return a latency with three significant digits, and with all digits before the point."""
    digits = max(0, 2 - math.floor(math.log10(float(f"{value:.3g}"))))
    return f"{value:,.{digits}f}"


def number(value: float | None, unit: str = "") -> str:
    """Return a value with three significant digits and its unit; NOT_IN_MATRIX without one."""
    if value is None:
        return NOT_IN_MATRIX
    shown = milliseconds(value) if value > 0 else f"{value:.3g}"
    return f"{shown} {unit}".rstrip()


def seconds(value: float | None) -> str:
    """Return seconds, those below one as milliseconds."""
    return number(value and 1000 * value, "ms") if value and value < 1 else number(value, "s")


def mebibytes(value: float | None) -> str:
    """Return MiB, or GiB if they are many."""
    return number(value / 1024, "GiB") if value and value >= 1024 else number(value, "MiB")


def size(count: int | None) -> str:
    """Return bytes, or KiB, MiB or GiB."""
    if count is None or count < 1024:
        return number(count, "B") if count is None else f"{count} B"
    return number(count / 1024, "KiB") if count < 2**20 else mebibytes(count / 2**20)


def within(ratio: float | None, low: float | None, high: float | None) -> str:
    """Return `1.21 (1.05 to 1.39)`; UNKNOWN for an interval that is too wide, NO_INTERVAL without one."""
    if low is None or high is None:
        return NOT_IN_MATRIX if ratio is None else f"{ratio:.2f} ({NO_INTERVAL})"
    return UNKNOWN if ratio is None else f"{ratio:.2f} ({low:.2f} to {high:.2f})"


def title(table: Table) -> str:
    """Return `82 of 145 rows measured and verified; 90 of 96 ratios decided`, and what that means."""
    provenance = table.provenance
    counted = f"{provenance.measured} of {provenance.rows} rows measured and verified"
    if not provenance.ratios:
        return counted
    return f"{counted}; {provenance.decided} of {provenance.ratios} ratios decided (faster, slower or same within 5 %)"


def head(name: str, table: Table) -> str:
    """Return the beginning of a page: its title, the counts, and when the rows were measured."""
    when = f"\nMeasured {table.provenance.when}.\n" if table.provenance.when else ""
    return f"# {name}\n\n{title(table)}.\n{when}"


def means_head(table: Table) -> list[str]:
    """Return the headings of a table of means, without that of its first column."""
    return ["verified", *(f"over {BASE_NAMES[n]}" for n in table.bases)]


def milliseconds_of(timing: Timing, table: Table) -> str:
    """Return a latency, marked if there is a doubt about it and not about all of the table; UNKNOWN if its interval is too wide."""
    shown = UNKNOWN if timing.is_unknown else milliseconds(timing.ms)
    return (DOUBTFUL if timing.doubt and not table.all_doubtful else "") + shown


def unknown(table: Table) -> str:
    """Return `too noisy: load 25; 14 of 16 ratios are not known to 50 %`; "" if all are."""
    counted = table.provenance
    if not counted.unknown:
        return ""
    why = (
        f"too noisy: load {counted.load:.0f}"
        if counted.load
        else "too few or too unlike generations"
    )
    return f"{why}; {counted.unknown} of {counted.ratios} ratios are not known to 50 %"


def doubts(table: Table) -> list[str]:
    """Return a sentence about each doubt: `conv: eager, inductor; gcn: eager: processes of this program differ`."""
    rows_of: dict[str, list[str]] = {}
    for (label, doubt), columns in table.doubts.items():
        rows_of.setdefault(doubt, []).append(f"{label}: {', '.join(map(path, columns))}")
    return [f"{'; '.join(rows)}: {doubt}" for doubt, rows in rows_of.items()]


def doubtful(table: Table) -> str:
    """Return what DOUBTFUL means, or that all latencies have a doubt; "" if none has one."""
    if not table.doubts:
        return ""
    if table.all_doubtful:
        return "the ratios of all latencies are doubtful"
    return f"{DOUBTFUL}: the ratios of this latency are doubtful"


def leaks(table: Table) -> list[str]:
    """Return a sentence about each row whose calls leave memory behind."""
    return [
        f"{line.label}: {path(column)}: each call leaves {row.timing.leaked_bytes:,} bytes"
        for line in table.rows
        for column, row in line.entries.items()
        if row.timing and row.timing.leaked_bytes
    ]


def path(column: Column, test: str = "eval") -> str:
    """Return `torchmlir-torch on llvm-cpu`, or the name of a baseline."""
    on = f" on {column.target}" if column.target else ""
    return f"{column.name}{on}" + ("" if test == "eval" else f" ({test})")


def absent(summed: Absent) -> str:
    """Return a sentence about targets or baselines that did not run."""
    names = ", ".join(summed.places)
    counts = []
    if summed.is_target:
        counts.append(f"{summed.without_device} of {summed.rows} compile")
    if summed.reasons:
        reasons = ", ".join(f"{count} {reason}" for reason, count in summed.reasons)
        counts.append(f"{summed.rows - summed.without_device} fail ({reasons})")
    if summed.by_other_path:
        counts.append(f"{summed.by_other_path} of these compile by another lowering path")
    counts.append("not measured")
    detail = textwrap.shorten(summed.detail, DETAIL_CHARS, placeholder=" …")
    return f"{names}: " + ", ".join(counts) + f": {detail}"


def means(mean: Mean, table: Table) -> list[str]:
    """Return a mean as cells: `13 of 14` rows that were measured and verified, and the mean over each base."""
    counted = f"{mean.verified} of {mean.rows}"
    return [counted, *(speedup(mean.over[n], mean) for n in table.bases)]


def speedup(over_base: Speedup | None, mean: Mean) -> str:
    """Return `1.21 (1.05 to 1.39)`, with the number of rows if not all measured rows are in it."""
    if over_base is None:
        return NOT_IN_MATRIX
    at = over_base.interval
    if at is None:
        return NO_INTERVAL
    if not at.is_known:
        return UNKNOWN
    counted = "" if over_base.count == mean.verified else f", {over_base.count} rows"
    return within(at.ratio, at.low, at.high) + counted


CODE_CHARS = 160
"""Maximum length of a code span in a table."""


def text(value: object) -> str:
    """Return a value escaped, so that no part of it ends a cell, is read as markup or is a control character."""
    return re.sub(r"([\\`*<>\[\]|~])", r"\\\1", shown(str(value))).replace("\n", "<br>")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Return a table. The cells are Markdown; the columns `right` are aligned to the right."""
    numbers = set(right)
    under = ["--:" if place in numbers else "---" for place in range(len(head))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, under, *rows))


def bullets(lines: Iterable[object]) -> str:
    """Return lines of text as a list."""
    return "".join(f"- {text(line)}\n" for line in lines)


def code(value: str) -> str:
    """Return one line as a code span in a table, cut at CODE_CHARS characters."""
    line = shown(" ".join(value.split()))
    line = line if len(line) <= CODE_CHARS else line[: CODE_CHARS - 1] + "…"
    # A code span ends with the same number of backticks as at its start. A pipe ends the cell, even
    # in a code span. A backslash before the pipe would be combined with the one that escapes it.
    line = re.sub(r"(?<!\\)((?:\\\\)*\\)\|", r"\1 |", line)
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return fence + pad + line.replace("|", "\\|") + pad + fence
