"""List and select the operator problems of traces or of BackendBench's dataset.

vmfbench operators --traces results/operators/traces/*.txt
vmfbench operators --dataset problems.parquet --select overhead --out overhead.txt
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from scripts.core import atomic, exits
from scripts.results import page_sections
from scripts.results.page_sections import Section
from scripts.tools.operators.problems import argument_values, problem, sources
from scripts.tools.operators.problems.problem import Problem, Selection


def main() -> None:
    args = _arguments()
    try:
        problems, notes = sources.read_source(args.dataset, args.mapping, args.traces or ())
    except (sources.SourceError, OSError) as error:
        exits.fail(str(error))
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    # The names of the options are those of the fields.
    chosen = problem.select(problems, msgspec.convert(vars(args), Selection))
    if not chosen:
        exits.fail(f"none of {len(problems)} problems is selected")
    print(page_sections.as_text([_table(chosen)]), end="")
    if args.out:
        _write(args.out, chosen)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sources = parser.add_mutually_exclusive_group(required=True)
    sources.add_argument("--traces", type=Path, nargs="+", help="trace files, one per model")
    sources.add_argument("--dataset", help="parquet or JSON file, or the id of a hub's dataset")
    parser.add_argument("--mapping", help="of the dataset's problems to models: file or hub id")
    parser.add_argument("--select", choices=problem.KINDS, default="included")
    parser.add_argument("--operators", nargs="+", default=[], metavar="GLOB")
    parser.add_argument("--source-models", nargs="+", default=[], metavar="GLOB")
    parser.add_argument("--smallest", type=int, help="so many problems per operator")
    parser.add_argument("--largest", type=int, help="so many problems per operator")
    parser.add_argument("--max-elements", type=int, help="of all tensor arguments of a problem")
    parser.add_argument(
        "--dtype", default="", choices=argument_values.FLOATING, help="in place of traced ones"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="write the selected problems: .txt as a trace, .jsonl with all fields",
    )
    args = parser.parse_args()
    if args.out and args.out.suffix not in (".txt", ".jsonl"):
        parser.error(f"--out {args.out}: expected a name that ends in .txt or .jsonl")
    return args


def _table(problems: Iterable[Problem]) -> Section:
    """Return a table with one line per operator, sorted by the number of problems."""
    by_operator: dict[str, list[Problem]] = {}
    for each in problems:
        by_operator.setdefault(each.op, []).append(each)
    total = sum(map(len, by_operator.values()))
    head = ("operator", "problems", "calls", "models", "smallest", "largest")
    rows = []
    for op, group in sorted(by_operator.items(), key=lambda item: (-len(item[1]), item[0])):
        calls = sum(p.count for p in group)
        models = {model for p in group for model in p.models}
        elements = [p.elements for p in group]
        counts = (len(group), calls, len(models), min(elements), max(elements))
        rows.append((op, *map(str, counts)))
    title = f"{total} problems of {len(by_operator)} operators"
    note = "calls: in the source; smallest, largest: elements of all tensor arguments"
    return Section(title, head, rows, range(1, 6), note)


def _write(path: Path, problems: Iterable[Problem]) -> None:
    if path.suffix == ".jsonl":
        atomic.write_text(path, "".join(p.line() for p in problems))
    else:
        sources.write_trace(path, {(p.op, p.args): p.count for p in problems})
    print(path)
