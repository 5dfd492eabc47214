"""Write the table of operators × lowering paths and targets into a page, from the records of a run.

The page has two comments, `<!-- operators -->` and `<!-- end of operators -->`. What is between them is replaced.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits, options
from scripts.core.options import option
from scripts.features import registry
from scripts.features.operators.report import analysis, page, records_file
from scripts.features.operators.report.analysis import OperatorRates, Rate, Rates
from scripts.features.operators.report.table import Table
from scripts.records import markdown
from scripts.records.markdown import text
from scripts.records.results_file import BadRecords

LEGEND = """\
Problems that pass: verified on a target that was run, compiled for the others. ✓: all problems of the operator; ✗: none of them.
*Any path*: by at least one lowering path.
"""
BEGIN, END = "<!-- operators -->\n", "<!-- end of operators -->\n"


@dataclass(frozen=True, kw_only=True)
class Options:
    results: Path = records_file.JSONL
    into: Path = option(help="the page, in Markdown")
    note: str = option("", help="a paragraph before the tables")


def main() -> None:
    registry.load()
    args = options.parse(Options)
    try:
        table = Table(record.data for record in records_file.read(args.results))
        written = args.into.read_text(encoding="utf-8")
        before, _, rest = written.partition(BEGIN)
        _, _, after = rest.partition(END)
    except (BadRecords, OSError) as error:
        exits.fail(str(error))
    if BEGIN not in written or END not in rest:
        exits.fail(
            f"{args.into}: expected the lines {BEGIN.strip()} and {END.strip()}, in this order"
        )
    command = ["python", "-m", "scripts.stages.report_operators", "--into", str(args.into)]
    note = f"{args.note}\n\n" if args.note else ""
    block = f"\n{note}Made by `{shlex.join(command)}`.\n\n{tables(table)}\n"
    atomic.write_text(args.into, f"{before}{BEGIN}{block}{END}{after}")


def tables(table: Table) -> str:
    """Return the tables as Markdown: the totals, all operators, and the problems that no path passes."""
    by_target = {target: analysis.rates(table, target) for target in table.targets}
    parts = [_totals(table, by_target), f"{LEGEND}\n{_operators(by_target)}", *_blocked(table)]
    return "\n".join(parts)


def _totals(table: Table, by_target: dict[str, Rates]) -> str:
    """Return the problems that pass, by lowering path (down) and target (across)."""
    names = list(dict.fromkeys(column.name for column in table.paths))
    head = [
        "",
        *(
            f"{text(target)}: {'verified' if rates.has_run else 'compiled'}"
            for target, rates in by_target.items()
        ),
    ]
    rows = [
        [text(name), *(_share(rates, name) for rates in by_target.values())]
        for name in (names if len(names) == 1 else (*names, "any path"))
    ]
    count = (
        f"{len(table.problems):,} problems of {len({p.op for p in table.problems}):,} operators."
    )
    return f"{count}\n\n{markdown.table(head, rows, right=range(1, len(head)))}{_weak(table)}"


def _share(rates: Rates, name: str) -> str:
    by_name = {
        column.name: rate for column, rate in zip(rates.columns, rates.all.by_column, strict=True)
    }
    rate = by_name.get(name, rates.all.best)
    return f"{rate.passed:,} ({rate.share:.1%})" if rate.of else ""


def _weak(table: Table) -> str:
    tested = [problem for problem in table.problems if problem.has_reference]
    weak = sum(bool(problem.weak) for problem in tested)
    theirs = sum(bool(problem.weak_backendbench) for problem in tested)
    return (
        f"\nOf the {len(tested):,} problems with a reference, {weak:,} are weak by this project's verification, and"
        f" {theirs:,} by BackendBench's criterion.\n"
    )


def _operators(by_target: dict[str, Rates]) -> str:
    """Return all operators (down) and lowering paths (across).

    A target that was run has a column for each path; the others have one for any path.
    """
    head = ["operator", "problems"]
    for target, rates in by_target.items():
        if rates.has_run:
            head += [f"{text(column.name)}<br>{text(target)}" for column in rates.columns]
        if _has_best(rates):
            head.append(f"any path<br>{text(target)}")
    by_operator = zip(*(rates.operators for rates in by_target.values()), strict=True)
    rows = [
        [
            text(operator[0].op),
            str(operator[0].best.of),
            *_marks(operator, list(by_target.values())),
        ]
        for operator in by_operator
    ]
    return markdown.table(head, rows, right=[1])


def _marks(by_target: tuple[OperatorRates, ...], rates: list[Rates]) -> Iterator[str]:
    for operator, of_target in zip(by_target, rates, strict=True):
        if of_target.has_run:
            yield from map(_mark, operator.by_column)
        if _has_best(of_target):
            yield _mark(operator.best)


def _has_best(rates: Rates) -> bool:
    """Return whether the best path has a column: it would repeat that of a single path."""
    return not rates.has_run or len(rates.columns) > 1


def _mark(rate: Rate) -> str:
    if rate.passed in (0, rate.of):
        return "✓" if rate.passed else "✗"
    return f"{rate.passed} of {rate.of}"


def _blocked(table: Table) -> Iterator[str]:
    """Yield, for each target, the problems that pass on no path."""
    for target in table.targets:
        if shown := page.blocked(table, target, len(table.problems)):
            yield f"**On no path to {text(target)}**, with the fault and the reason of each path:\n\n{shown}"


if __name__ == "__main__":
    commands.run(main)
