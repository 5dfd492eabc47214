"""Select the operator problems of a run from traces or a dataset, and write them by batch.

Writes problems.jsonl, batches/<batch>.jsonl and source.json (the numbers of problems, and notes) into
--out. A trace that is empty, because its model could not be traced, is left out with a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic, commands, exits
from scripts.core.commands import option
from scripts.tools import registry
from scripts.tools.operators.operators_plan import Operators
from scripts.tools.operators.problems import problem, sources
from scripts.tools.operators.problems.problem import Problem, Selection


@dataclass(frozen=True, kw_only=True)
class Options:
    source: Mapping[str, Any] = option(help="JSON: Operators")
    traces: Sequence[Path] = option((), nargs="*", type=Path, help="trace files")
    out: Path = option(help="folder")


def main() -> None:
    registry.load()
    args = commands.parse_options(Options)
    source = msgspec.convert(args.source, Operators)
    try:
        problems, notes = sources.read_source(source.dataset, source.mapping, args.traces)
    except (sources.SourceError, OSError) as error:
        exits.fail(str(error))
    chosen = problem.select(problems, source.selection)
    if not chosen:
        exits.fail(
            f"operators: none of {len(problems)} problems is selected; change select, operators, "
            "source_models or max_elements of `operators:`"
        )
    _write(args.out, source, chosen)
    counted = _counted(source.selection, problems, chosen)
    atomic.write_json(args.out / "source.json", counted | {"notes": notes})
    for note in [*notes, f"{counted['selected']} of {counted['problems']} problems are selected"]:
        print(note)


def _write(folder: Path, source: Operators, chosen: Sequence[Problem]) -> None:
    """Write all problems, and those of each batch, in order."""
    lines = {problem.uuid: problem.line() for problem in chosen}
    atomic.write_text(folder / "problems.jsonl", "".join(lines.values()))
    batches: dict[str, list[str]] = {name: [] for name in source.batch_names()}
    for uuid, line in lines.items():
        batches[source.batch_of(uuid)].append(line)
    for name, own in batches.items():
        atomic.write_text(folder / "batches" / f"{name}.jsonl", "".join(own))


def _counted(
    wanted: Selection, problems: Sequence[Problem], chosen: Sequence[Problem]
) -> dict[str, Any]:
    """Return how many problems there are, are selected, and are left out because of their size."""
    at_most = wanted.max_elements
    operators = Counter(problem.op for problem in problems)
    return {
        "problems": len(problems),
        "operators": len(operators),
        "selected": len(chosen),
        "selected_operators": len({problem.op for problem in chosen}),
        "max_elements": at_most,
        "larger": sum(at_most is not None and p.elements > at_most for p in problems),
    }


if __name__ == "__main__":
    commands.run(main)
