"""List and select the operator problems of traces or of BackendBench's dataset.

vmfbench operators --traces results/operators/traces/*.txt
vmfbench operators --dataset problems.parquet --select overhead --out overhead.txt
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.core import atomic, exits
from scripts.features.operators.problems import dataset, selection, traces, values
from scripts.features.operators.problems.problem import Problem, merged
from scripts.features.operators.problems.selection import Selection

_COLUMNS = ("operator", "problems", "calls", "models", "smallest", "largest")


def main() -> None:
    args = _arguments()
    try:
        problems, notes = _read(args)
    except (dataset.DatasetError, traces.TraceError, OSError) as error:
        exits.fail(str(error))
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    chosen = selection.select(problems, _selection(args))
    if not chosen:
        exits.fail(f"none of {len(problems)} problems is selected")
    Console().print(_table(chosen))
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
    parser.add_argument("--select", choices=selection.KINDS, default="included")
    parser.add_argument("--operators", nargs="+", default=[], metavar="GLOB")
    parser.add_argument("--source-models", nargs="+", default=[], metavar="GLOB")
    parser.add_argument("--smallest", type=int, help="so many problems per operator")
    parser.add_argument("--largest", type=int, help="so many problems per operator")
    parser.add_argument("--max-elements", type=int, help="of all tensor arguments of a problem")
    parser.add_argument(
        "--dtype", default="", choices=values.FLOATING, help="in place of traced ones"
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


def _read(args: argparse.Namespace) -> tuple[list[Problem], list[str]]:
    if args.traces:
        return list(merged(p for path in args.traces for p in traces.read(path))), []
    mapping = args.mapping and dataset.located(args.mapping, dataset.MAPPING)
    return dataset.read(dataset.located(args.dataset, dataset.PROBLEMS), mapping or None)


def _selection(args: argparse.Namespace) -> Selection:
    return Selection(
        select=args.select,
        operators=tuple(args.operators),
        source_models=tuple(args.source_models),
        smallest=args.smallest,
        largest=args.largest,
        max_elements=args.max_elements,
        dtype=args.dtype,
    )


def _table(problems: Iterable[Problem]) -> Table:
    """Return a table with one line per operator, sorted by the number of problems."""
    by_operator: dict[str, list[Problem]] = {}
    for problem in problems:
        by_operator.setdefault(problem.op, []).append(problem)
    total = sum(map(len, by_operator.values()))
    table = Table(title=f"{total} problems of {len(by_operator)} operators")
    for name in _COLUMNS:
        is_name = name == "operator"
        table.add_column(name, justify="left" if is_name else "right", overflow="fold")
    for op, group in sorted(by_operator.items(), key=lambda found: (-len(found[1]), found[0])):
        elements = [problem.elements for problem in group]
        models = {model for problem in group for model in problem.models}
        counts = (
            len(group),
            sum(p.count for p in group),
            len(models),
            min(elements),
            max(elements),
        )
        table.add_row(op, *map(str, counts))
    table.caption = "calls: in the source; smallest, largest: elements of all tensor arguments"
    return table


def _write(path: Path, problems: Iterable[Problem]) -> None:
    if path.suffix == ".jsonl":
        lines = (json.dumps(problem.to_json(), allow_nan=False) for problem in problems)
        atomic.write_text(path, "".join(f"{line}\n" for line in lines))
    else:
        traces.write(path, {(problem.op, problem.args): problem.count for problem in problems})
    print(path)
