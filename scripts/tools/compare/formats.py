"""A comparison as text, Markdown, JSON, JUnit XML, or annotations of GitHub Actions."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from scripts.core import checkout, commands
from scripts.measure.timing.ratios import ALIKE, FASTER, POWER, SLOWER, UNDECIDED, Interval
from scripts.results import ci_formats, page_sections
from scripts.results.ci_formats import Case
from scripts.results.page_sections import Section
from scripts.results.wording import UNKNOWN, milliseconds
from scripts.tools.compare.code_changes import REARRANGED, CodeChange, DispatchChange
from scripts.tools.compare.comparing import AMOUNTS, AmountChange, Change, Comparison
from scripts.tools.compare.pairs import (
    ALL,
    GONE,
    KINDS,
    LATENCY,
    NEW,
    MeanChange,
    OutcomeChange,
    TimeChange,
)

BY_ANCHOR = "By anchor: the ratio is that of the speed-ups over the anchor; the milliseconds are of different times."
SHOWN = 40
"""Rows of a table of undecided or unchanged latencies, and changes for the worse in the summary."""
BLAMED = 3
"""Dispatches that are named in a sentence."""


def as_text(comparison: Comparison, with_all: bool = False) -> str:
    """Return the comparison for a terminal."""
    tables = page_sections.as_text(sections(comparison, with_all))
    lines = [_title(comparison), tables, *summary(comparison)]
    return commands.shown("\n".join(lines)) + "\n"


def as_markdown(comparison: Comparison, with_all: bool = False) -> str:
    """Return the comparison as a comment on a pull request: the result first."""
    parts = sections(comparison, with_all)
    whole = Section(_title(comparison), lines=summary(comparison), parts=parts)
    return page_sections.as_markdown([whole], level=3)


def as_json(comparison: Comparison, with_all: bool = False) -> str:
    """Return the whole comparison, also as sentences and tables (for results/report.html)."""
    tables = [page_sections.to_json(section) for section in sections(comparison, with_all)]
    whole = comparison.as_json() | {"summary": summary(comparison), "tables": tables}
    return json.dumps(whole, indent=2, allow_nan=False) + "\n"


def as_annotations(comparison: Comparison, with_all: bool = False) -> str:
    """Return workflow commands of GitHub Actions: an error for each change for the worse, a notice for each
    other change, and the summary (docs.github.com, "Workflow commands for GitHub Actions")."""
    alarms, lines = comparison.alarms, []
    for change in comparison.changes:
        if sentence := _sentence(change, comparison.codes):
            kind = "error" if change in alarms else "notice"
            lines.append(ci_formats.annotation(kind, sentence, change.cell))
    whole = "\n".join(summary(comparison))
    lines.append(ci_formats.annotation("notice", whole, _title(comparison)))
    return "".join(f"{line}\n" for line in lines)


def as_junit(comparison: Comparison, with_all: bool = False) -> str:
    """Return JUnit XML with a test per cell of both sides. Only changes for the worse that count are failures."""
    alarms, outputs = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for alarm in comparison.alarms:
        alarms[alarm.cell].append(_sentence(alarm, comparison.codes))
    for change in (*comparison.latencies, *comparison.compile_times):
        outputs[change.cell].append(f"{change.what} {change.verdict}: {_ratio(change)}")
    for code in comparison.codes:
        outputs[code.cell].append(_code_sentence(code))
    skipped = {each.cell: f"latencies not compared: {each.why}" for each in comparison.not_compared}
    cases = [
        Case(
            name,
            "\n".join(alarms.get(name, ())),
            "" if name in alarms else skipped.get(name, ""),
            "\n".join(outputs.get(name, ())),
        )
        for name in dict.fromkeys((*comparison.names, *alarms))
    ]
    return ci_formats.junit("comparison", _title(comparison), cases)


def _title(comparison: Comparison) -> str:
    return f"{comparison.before} → {comparison.after}"


def _sentence(change: Change, codes: Sequence[CodeChange]) -> str:
    """A change in one line, a slower cell with the dispatches that explain it; "" for a latency of which no change was found."""
    match change:
        case OutcomeChange():
            detail = f": {change.detail}" if change.detail else ""
            outcomes = f"{change.before or '–'} → {change.after or '–'}"
            return f"{change.kind} ({KINDS[change.kind]}): {outcomes}{detail}"
        case TimeChange():
            if change.verdict not in (SLOWER, FASTER):
                return ""
            subject = "" if change.what == LATENCY else f"{change.what} "
            sentence, what = f"{subject}{change.verdict}: {_ratio(change)}", change.what
        case AmountChange():
            sentence, what = f"{AMOUNTS[change.key].words}: {_amount(change)}", change.key
    # A slower cell, or one with more dispatches.
    is_explained = what in (LATENCY, "dispatch_count")
    code = [_blamed(code) for code in codes if code.cell == change.cell and is_explained]
    return "; ".join([sentence, *filter(None, code)])


def _blamed(code: CodeChange) -> str:
    """The dispatches that make the largest difference, in a line."""
    blamed = []
    for change in code.changed[:BLAMED]:
        share = code.share(change.difference_ms)
        modules = f" ({', '.join(change.modules)})" if change.modules else ""
        adds = "" if share is None else f" {share:+.1%}"
        blamed.append(f"{change.name}{modules} {change.kind}{adds}")
    if blamed:
        return f"dispatches: {', '.join(blamed)}"
    return "" if code.unknown else _code_sentence(code)


FORMATS: dict[str, Callable[[Comparison, bool], str]] = {
    "text": as_text,
    "markdown": lambda *args: ci_formats.cut(as_markdown(*args), ci_formats.SUMMARY_BYTES),
    "comment": lambda *args: ci_formats.cut(as_markdown(*args), ci_formats.COMMENT_BYTES),
    "json": as_json,
    "github": as_annotations,
    "junit": as_junit,
}


def summary(comparison: Comparison) -> list[str]:
    """Return the result in a few sentences, the most important first."""
    kinds = Counter(change.kind for change in comparison.outcomes)
    counted = [f"{comparison.cells} cells in both: {comparison.unchanged} with the same outcome"]
    lines = [", ".join(counted + [f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind]])]
    if comparison.codes:
        compared = [code for code in comparison.codes if not code.unknown]
        same = sum(code.is_same for code in compared)
        rearranged = sum(code.is_rearranged for code in compared)
        counted = [f"{same} the same code"]
        if rearranged:
            counted.append(f"{rearranged} with other registers or order alone")
        counted.append(f"{len(compared) - same - rearranged} changed")
        lines.append(f"code of {len(compared)} cells compared: {', '.join(counted)}")
    for changes, what in (
        (comparison.latencies, "latencies compared"),
        (comparison.compile_times, "programs compiled again"),
    ):
        verdicts = Counter(change.verdict for change in changes)
        words = [f"{verdicts[verdict]} {verdict}" for verdict in (SLOWER, FASTER, ALIKE, UNDECIDED)]
        lines += [f"{len(changes)} {what}: {', '.join(words)}"] if changes else []
    if comparison.not_compared:
        lines.append(f"{len(comparison.not_compared)} latencies not compared")
    for mean in comparison.means:
        if mean.by == ALL:
            lines.append(f"geometric mean of the ratios after / before: {_ratio(mean)}")
    alarms = comparison.alarms
    if not alarms:
        return [*lines, "no change for the worse"]
    shown = [f"{each.cell}: {_sentence(each, comparison.codes)}" for each in alarms[:SHOWN]]
    return [*lines, f"changes for the worse: {len(alarms)}", *shown]


def sections(comparison: Comparison, with_all: bool = False) -> list[Section]:
    """Return the tables that have rows. `with_all`: also latencies of which no change was found."""
    most = None if with_all else SHOWN
    shown = [change for change in comparison.latencies if change.verdict in (SLOWER, FASTER)]
    hidden = (UNDECIDED, ALIKE) if with_all else (UNDECIDED,)
    undecided = [change for change in comparison.latencies if change.verdict in hidden]
    versions = [
        (each.name, each.before, each.after, str(each.rows)) for each in comparison.versions
    ]
    amounts = [
        ("worse" if each.worse else "better", AMOUNTS[each.key].words, each.cell, _amount(each))
        for each in comparison.amounts
    ]
    means = [
        (f"{mean.by} {mean.name}".strip(), str(mean.cells), _ratio(mean))
        for mean in comparison.means
    ]
    passes = [
        (each.cell, each.name, f"{each.before_s:.2f}", f"{each.after_s:.2f}", f"{each.share:+.1%}")
        for each in comparison.passes[:most]
    ]
    not_compared = [(each.cell, each.why) for each in comparison.not_compared]
    every = [
        Section("Versions and options", ("what", "before", "after", "rows"), versions, (3,)),
        _outcomes(comparison, with_all),
        _latencies(
            "Latency",
            sorted(shown, key=lambda change: -change.ratio),
            f"Ratio: after / before, with an interval that excludes 1 exactly for the cells that differ at a rate of "
            f"false discoveries of {comparison.settings.rate:.0%} over all cells (Benjamini and Hochberg). {BY_ANCHOR}",
        ),
        Section(
            "Compilation, memory, size and error", ("change", "what", "cell", "ratio"), amounts
        ),
        _latencies(
            "Compile time, in turns",
            sorted(comparison.compile_times, key=lambda change: -change.ratio),
            "CPU time of iree-compile, both compilations in turns. The intervals are decided over these cells together, as those of latencies.",
        ),
        Section(
            *("Compile time by pass", ("cell", "pass", "before, s", "after, s", "share"), passes),
            right=(2, 3, 4),
            note="Seconds of iree-compile on one thread, measured once. Share: the difference, of all seconds before.",
        ),
        Section(
            *("Means", ("over", "cells", "ratio"), means, (1, 2)),
            "Geometric means of latency after / latency before, with 99 % intervals of each mean alone.",
        ),
        _latencies(
            "Latencies of which no change was found" if with_all else "Undecided latencies",
            sorted(undecided, key=lambda change: -change.smallest)[:most],
            f"Smallest: the slow-down that would have been found with a probability of {POWER:.0%}. {BY_ANCHOR}",
        ),
        Section("Latencies not compared", ("cell", "why"), _by_path(not_compared, with_all)),
        *_code(comparison.codes, with_all),
    ]
    return page_sections.shown(every)


def _ratio(change: TimeChange | MeanChange) -> str:
    """`1.12 (1.05 to 1.19)`; without the ratio, if its interval is too wide."""
    at = Interval(change.ratio, change.low, change.high)
    shown = f"{at.ratio:.3f}" if at.is_known else UNKNOWN
    return f"{shown} ({at.low:.3f} to {at.high:.3f})"


def _amount(change: AmountChange) -> str:
    """`1.53 × (2.1 s before, 3.2 s after)`."""
    factor = f"{change.after / change.before:.2f} × " if change.before else ""
    unit = AMOUNTS[change.key].unit
    before, after = (
        f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.4g} {unit}"
        for value in (change.before, change.after)
    )
    return f"{factor}({before.strip()} before, {after.strip()} after)"


def _outcomes(comparison: Comparison, with_all: bool) -> Section:
    """The changes of outcomes. Cells that only one side has are listed without their models, unless `with_all`."""
    rows = [
        (each.cell, each.kind, each.before, each.after, each.detail) for each in comparison.outcomes
    ]
    in_both = [row for row in rows if row[1] not in (GONE, NEW)]
    others = _by_path([row for row in rows if row not in in_both], with_all)
    listed = [(kind, cell, *rest) for cell, kind, *rest in (*in_both, *others)]
    return Section("Outcomes", ("change", "cell", "before", "after", "detail"), listed)


def _code(codes: Sequence[CodeChange], with_all: bool) -> list[Section]:
    """What differs in the code, by cell and by dispatch."""
    cells = [(code.cell, _code_sentence(code)) for code in codes]
    dispatches = []
    for code in codes:
        # Without `with_all`, not those of which only registers or the order differ, unless their time is known.
        telling = [c for c in code.changed if c.kind != REARRANGED or c.difference_ms is not None]
        for change in code.changed if with_all else telling[:SHOWN]:
            dispatches.append((code.cell, change.kind, change.name, *_dispatch(code, change)))
    replays = [
        (
            code.cell,
            each.name,
            each.why or f"{each.share:+.1%} ({each.low:+.1%} to {each.high:+.1%})",
        )
        for code in codes
        for each in code.replays
    ]
    head = ("cell", "change", "dispatch", "modules", "instructions", "tiling", "ms", "latency")
    return [
        Section("Code", ("cell", "code"), _by_path(cells, with_all)),
        Section(
            *("Dispatches whose code differs", head, dispatches, (6, 7)),
            "Latency: what the dispatch adds to it, as a share of the latency before. Milliseconds: its share in a profile, of a latency "
            f"that can be compared with that of the other side. Both need `{checkout.run_command('profile')}`.",
        ),
        Section(
            *("Dispatches put into the run before", ("cell", "dispatch", "latency"), replays, (2,)),
            "How much the latency changes if the dispatch of the build after takes the place of that before in its recorded run.",
        ),
    ]


def _code_sentence(code: CodeChange) -> str:
    if code.unknown:
        return f"not compared: {code.unknown}"
    if code.is_same:
        return "same code: only the runtime, or the machine, can make a difference"
    kinds = Counter(change.kind for change in code.changed)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    parts = [
        f"{counted} of {code.functions} functions" if counted else "all functions are the same",
        f"host program {'changed' if code.host else 'the same'}",
    ]
    known = [change.difference_ms for change in code.changed if change.difference_ms is not None]
    for words, difference in (
        ("they add", sum(known) if known else None),
        ("all others", code.rest_ms),
    ):
        if (share := code.share(difference)) is not None:
            parts.append(f"{words} {share:+.1%}")
    return "; ".join(parts)


def _dispatch(code: CodeChange, change: DispatchChange) -> tuple[str, ...]:
    """The columns of a function after its name."""

    def both(values: Sequence[float | int | None], form: str) -> str:
        shown = ["–" if value is None else form.format(value) for value in values]
        return " → ".join(shown) if any(value is not None for value in values) else ""

    share = code.share(change.difference_ms)
    return (
        ", ".join(change.modules),
        both(change.instructions, "{}"),
        " → ".join(text or "–" for text in change.tiling) if any(change.tiling) else "",
        both(change.ms, "{:.4g}"),
        "" if share is None else f"{share:+.2%}",
    )


def _latencies(title: str, changes: Sequence[TimeChange], note: str) -> Section:
    head = ("change", "cell", "before, ms", "after, ms", "ratio", "q", "smallest", "measured")
    rows = [
        (
            change.verdict, change.cell, milliseconds(change.before_ms), milliseconds(change.after_ms),
            _ratio(change), f"{change.q:.2g}", f"{change.smallest:.3f}", change.basis,
        )
        for change in changes
    ]  # fmt: skip
    return Section(title, head, rows, (2, 3, 4, 5, 6), note)


def _by_path(rows: Sequence[tuple[str, ...]], with_all: bool) -> list[tuple[str, ...]]:
    """Rows that begin with a cell. Those that differ in the model alone become one, such as `4 × */eager/eval`, unless
    `with_all`."""
    alike = [(cell.partition("/")[2], *rest) for cell, *rest in rows]
    counts = Counter(alike)
    merged = {
        (
            f"{counts[key]} × */{key[0]}" if counts[key] > 1 and not with_all else row[0],
            *key[1:],
        ): None
        for row, key in zip(rows, alike, strict=True)
    }
    return list(merged)
