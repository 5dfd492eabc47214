"""What is shown of operators: results/operators.md, the view of the report page, and the summary of a run. They say which operators pass on
which lowering path, and what to fix first. The same records give the same page, byte for byte.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scripts.results import wording
from scripts.results.page_sections import CODE, Section, Styled, as_markdown
from scripts.supervise.diagnose import failure_signature, readable_detail
from scripts.tools.operators.problems.scores import Scores
from scripts.tools.operators.report import analysis, faults
from scripts.tools.operators.report.analysis import (
    Fix,
    ModelTime,
    Problem,
    Rate,
    Row,
    Scored,
    Table,
)

MOST = 100
"""Lines of a table of failures; operators.csv has all."""
MOST_OPERATORS = 10
"""Operators of a model whose times are shown."""
NAMES = 4
CHARS = 120
"""Of arguments and details in tables."""

SCORES = """\
BackendBench's scores are over every problem that it includes, by its own criterion: *correctness* is the mean over operators of the
share of their problems that are correct, *fully correct* the share of the operators without a wrong problem, *performance* the
geometric mean of the speed-ups over eager, in which a wrong problem counts as 1, and *perf@1* the share of the operators that are
fully correct and faster than eager. *Ours* are the same scores by this project's verification and without the weak problems. The best
path of a target is, for each problem, the fastest that is correct. It is chosen by the latencies that it is scored with, which is slightly
in its favour.
"""
FIXES = """\
Failures that differ only in numbers, types or source lines share a row, which quotes the first of them. They are ordered by the calls
of the problems that a fix would take a step further. *On no path*: the calls of those that pass on no lowering path of a target.
*Models*: those for which, on a lowering path and target, no other failure remains.
"""
TIMES = """\
Calls × latency of eager, and with the fastest verified lowering path on {target} for each problem. A problem that no path runs is
counted with eager's latency in both.
"""


def page(table: Table, source: Mapping[str, Any]) -> str:
    """Return the whole page as Markdown. `source`: what select_operators says of the selection."""
    if not table.rows:
        return "# Operators\n\nNo problem is selected.\n"
    return f"# Operators\n\n{title(table)}.\n{_source(source)}\n{as_markdown(sections(table))}"


def sections(table: Table) -> list[Section]:
    """Return what is shown of the problems."""
    return [
        _scores(table),
        _fixes(analysis.fixes(table)),
        _faults(table),
        Section("Operators", parts=[_rates(table, target) for target in table.targets]),
        Section("On no path", parts=[*_blocked(table)]),
        _times(table),
        _weak(table),
        Section("Measured with", lines=_measured_with(table)),
    ]


def view(records: Iterable[Mapping[str, Any]]) -> list[Section]:
    """Return what the report page shows of some records."""
    table = Table(records)
    return [Section("", lines=[f"{title(table)}."]), *sections(table)] if table.rows else []


def title(table: Table) -> str:
    """Return `272 problems of 136 operators; 1,020 of 1,088 rows of lowering paths pass`."""
    operators = len({problem.op for problem in table.problems})
    of_paths = [row for row in table.rows if row.column.target]
    passing = sum(map(table.passes, of_paths))
    return (
        f"{len(table.problems):,} problems of {operators:,} operators; {passing:,} of"
        f" {len(of_paths):,} rows of lowering paths pass"
    )


def _source(source: Mapping[str, Any]) -> str:
    if not source:
        return ""
    said = (
        f"{source['selected']:,} of the {source['problems']:,} problems of the source are selected"
    )
    if source["larger"]:
        said += f"; {source['larger']:,} have more than {source['max_elements']:,} elements"
    return "".join(f"\n{wording.text(line)}.\n" for line in (said, *source["notes"]))


def _scores(table: Table) -> Section:
    names = ("problems", "correctness", "fully correct", "performance", "perf@1")
    head = ["", *names, *(f"ours: {name}" for name in names)]
    rows = [
        [column.label, *_score(column.theirs), *_score(column.ours)]
        for column in analysis.scored(table)
    ]
    return Section("Scores", head, rows, range(1, len(head)), SCORES)


def _score(scores: Scores | None) -> list[str]:
    if scores is None:
        return [wording.NOT_IN_MATRIX] * 5
    problems = sum(operator.problems for operator in scores.operators)
    shares = (f"{share:.1%}" for share in (scores.correctness, scores.fully_correct))
    return [f"{problems:,}", *shares, f"{scores.performance:.3f}", f"{scores.perf_at_p:.1%}"]


def _fixes(fixes: Sequence[Fix]) -> Section:
    head = ["calls", "on no path", "problems", "operators", "models", "fault", "stage", "reason", "detail", "where"]  # fmt: skip
    more = _more(len(fixes), MOST, "failures")
    return Section("What to fix first", head, [*map(_fix, fixes[:MOST])], range(3), FIXES + more)


def _fix(fix: Fix) -> list[str]:
    models = dict.fromkeys(model for model, _ in fix.alone)
    first = fix.first
    status = "" if first.status == "error" else f"{first.status}: "
    return [
        f"{fix.calls:,}",
        f"{fix.blocked_calls:,}",
        f"{len(fix.problems):,}",
        _some(fix.operators),
        _some(models),
        first.fault,
        first.stage.removeprefix("operator_"),
        status + first.reason,
        Styled(fix.detail, CODE),
        ", ".join(wording.path(column) for column in fix.columns),
    ]


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - NAMES} more" if len(listed) > NAMES else ""
    return ", ".join(listed[:NAMES]) + more


def _faults(table: Table) -> Section:
    """Return the numbers of rows by fault (down) and column (across)."""
    failed = [row for row in table.rows if row.fault]
    columns = [c for c in (*table.paths, *table.baselines) if any(r.column == c for r in failed)]
    counts = Counter((row.fault, row.column) for row in failed)
    rows = [
        [fault, *(f"{counts[fault, c]:,}" if counts[fault, c] else "" for c in columns), meaning]
        for fault, meaning in faults.FAULTS.items()
        if any(counts[fault, c] for c in columns)
    ]
    head = ["rows", *map(wording.path, columns), ""]
    return Section("Where the fault is", head, rows, range(1, len(head) - 1))


def _rates(table: Table, target: str) -> Section:
    rates = analysis.rates(table, target)
    what = "verified" if rates.has_run else "compiled (not run: there is no such device)"
    head = ["operator", "calls", *(column.name for column in rates.columns), "best path"]
    rows = [
        [
            operator.op,
            f"{operator.calls:,}",
            *map(_rate, (*operator.by_column, operator.best)),
        ]
        for operator in rates.operators
        if operator.fails
    ]
    rows.append(["all", f"{rates.all.calls:,}", *map(_rate, (*rates.all.by_column, rates.all.best))])  # fmt: skip
    names = [f"{each.op} ({each.best.total})" for each in rates.operators if not each.fails]
    passing = "All problems of these operators pass on every path:"
    parts = [Section("", lines=[f"{passing} {', '.join(names)}."])] if names else []
    return Section(f"{target}: {what}", head, rows, range(1, len(head)), parts=parts)


def _rate(rate: Rate) -> str:
    shown = f"{rate.passed:,} of {rate.total:,}"
    style = "verified" if rate.passed == rate.total else "other-path" if rate.passed else "failed"
    return Styled(shown + (f" ({rate.share:.1%})" if rate.total >= 20 else ""), f"ending-{style}")


def _blocked(table: Table) -> Iterator[Section]:
    """Yield, for each target, the problems that pass on none of its lowering paths, with the reasons; those with the most calls first."""
    for target in table.targets:
        problems = table.by_problem(table.paths_of(target))
        failing = [rows for rows in problems if not any(map(table.passes, rows))]
        failing.sort(key=lambda rows: (-rows[0].problem.count, rows[0].problem.op))
        if failing:
            head = ["operator", "arguments", "calls", "fault", "why"]
            more = _more(len(failing), MOST, "problems")
            yield Section(target, head, [*map(_blocked_row, failing[:MOST])], [2], more)


def _blocked_row(rows: Sequence[Row]) -> list[str]:
    problem = rows[0].problem
    failures: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        kind = row.fault, row.reason, failure_signature(row.detail)
        failures.setdefault(kind, []).append(row)
    whys = []
    for same in failures.values():  # by some paths, which share a reason
        names = ", ".join(row.column.name for row in same)
        why = "" if len(failures) == 1 else f"{names}: "
        if detail := readable_detail(same[0].detail):
            why += f"{same[0].reason}: {_cut(detail)}"
        whys.append(why)
    faults = ", ".join(dict.fromkeys(row.fault or row.status for row in rows))
    return [problem.op, _arguments(problem), f"{problem.count:,}", faults, "\n".join(whys)]


def _arguments(problem: Problem) -> Styled:
    return Styled(_cut(problem.args), CODE)


def _cut(text: str) -> str:
    return text if len(text) <= CHARS else f"{text[: CHARS - 1]}…"


def _more(count: int, most: int, what: str) -> str:
    """Return a note about the lines that a table leaves out."""
    return f"\n{count - most:,} more {what}: results/operators.csv" if count > most else ""


def _times(table: Table) -> Section:
    for target in table.targets:
        if times := analysis.model_times(table, target):
            note = TIMES.format(target=wording.text(target))
            return Section("Where the time goes", note=note, parts=[*map(_time, times)])
    return Section("Where the time goes")


def _time(model: ModelTime) -> Section:
    eager_ms = model.total("eager_ms")
    head = ["operator", "calls", "eager, ms", "share", "best path, ms", "calls without a path"]
    rows = [
        [
            operator.op,
            f"{operator.calls:,}",
            wording.milliseconds(operator.eager_ms),
            f"{operator.eager_ms / eager_ms:.0%}",
            wording.milliseconds(operator.best_ms),
            f"{operator.unverified:,}" if operator.unverified else "",
        ]
        for operator in model.operators[:MOST_OPERATORS]
    ]
    best, timed = wording.milliseconds(model.total("best_ms")), model.total("calls")
    sums = f"{wording.milliseconds(eager_ms)} ms in eager mode, {best} ms by the best paths"
    note = f"{timed:,} of {model.calls:,} calls were timed: {sums}."
    return Section(model.model, head, rows, range(1, len(head)), note)


def _weak(table: Table) -> Section:
    tested = [p for p in table.problems if p.has_reference]
    if not tested:
        return Section("Weak problems")
    weak = [problem for problem in tested if problem.weak]
    theirs = sum(bool(problem.weak_backendbench) for problem in tested)
    marks = Counter(mark for problem in tested for mark in problem.marks)
    marked = ", ".join(f"{count:,} {mark}" for mark, count in sorted(marks.items()))
    note = (
        f"A wrong answer passes the verification of {len(weak):,} of {len(tested):,} problems"
        f" ({len(weak) / len(tested):.1%}), and BackendBench's criterion for {theirs:,}"
        f" ({theirs / len(tested):.1%}).{f' Marked results: {marked}.' if marked else ''}\n"
    )
    rows = [[p.op, _arguments(p), ", ".join(p.weak), ", ".join(p.marks)] for p in weak[:MOST]]
    head = ("operator", "arguments", "answers that pass", "marks") if rows else ()
    return Section("Weak problems", head, rows, (), note + _more(len(weak), MOST, "problems"))


def _measured_with(table: Table) -> list[str]:
    provenance = table.provenance
    lines = [*provenance.measured_with, *provenance.configuration]
    return lines + ([f"measured {provenance.when}"] if provenance.when else [])


SHOWN_FIXES = 5
"""Failures on the screen; results/operators.md has all."""


def on_screen(table: Table) -> list[Section]:
    """Return pass rates and scores by lowering path, and the failures that concern the most calls, at the end of a run."""
    failures = [
        line
        for fix in analysis.fixes(table)[:SHOWN_FIXES]
        for line in (_counted(fix), f"  {textwrap.shorten(fix.detail, CHARS, placeholder=' …')}")
    ]
    return [
        Section(title(table), lines=["; ".join(table.provenance.where)]),
        _passing(table),
        Section("What to fix first", lines=failures),
    ]


def _passing(table: Table) -> Section:
    """The pass rates and BackendBench's scores, by lowering path and for the best path."""
    scored = {column.label: column for column in analysis.scored(table)}
    rows = []
    for target in table.targets:
        rates = analysis.rates(table, target)
        of_path = {
            column.label: rate
            for column, rate in zip(rates.columns, rates.all.by_column, strict=True)
        }
        if len(of_path) > 1:
            of_path[analysis.best_path(target)] = rates.all.best
        for label, rate in of_path.items():
            passed = f"{rate.passed:,} of {rate.total:,}"
            rows.append([label, passed, *_score_cells(scored.pop(label, None))])
    rows += [[label, "", *_score_cells(column)] for label, column in scored.items()]
    return Section("", ("", "pass", "correctness", "performance", "perf@1"), rows, range(1, 5))


def _score_cells(scored: Scored | None) -> list[str]:
    if scored is None or scored.theirs is None:
        return [wording.NOT_IN_MATRIX] * 3
    scores = scored.theirs
    return [f"{scores.correctness:.1%}", f"{scores.performance:.3f}", f"{scores.perf_at_p:.1%}"]


def _counted(fix: Fix) -> str:
    """Return `iree-codegen: 1,200 calls, 3 problems of aten.foo and 1 more operator`."""
    count, others = len(fix.problems), len(fix.operators) - 1
    more = f" and {others} more operator{'s' * (others > 1)}" if others else ""
    problems = f"{count} problem{'s' * (count > 1)} of {fix.operators[0]}{more}"
    return f"{fix.first.fault}: {fix.calls:,} calls, {problems}"
