"""Write the smallest part of a program that is found to fail to compile in the same way.

Two failures are the same if they have the same reason and the same message without numbers and names.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.lib.core import atomic, exits
from scripts.lib.iree.tools import tool
from scripts.lib.reduction import oracle, search, signature
from scripts.lib.reduction.program import NotReducible, Program
from scripts.lib.reduction.search import Search

SLOWER = 3.0
"""A part may take this many times as long as the whole program, and at least LEAST_S."""
LEAST_S = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.reduce_program", description=__doc__)
    parser.add_argument("--program", required=True, type=Path)
    parser.add_argument(
        "--flags", required=True, type=json.loads, help="all flags of iree-compile, as a JSON list"
    )
    parser.add_argument("--budget", type=float, default=300.0, metavar="SECONDS")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--out-report", required=True, type=Path)
    args = parser.parse_args()
    text = args.program.read_text(encoding="utf-8")
    try:
        found = reduce(text, args.flags, args.budget)
    except NotReducible as error:
        exits.fail(f"{args.program}: {error}")
    args.out.write_text(found.text, encoding="utf-8")
    atomic.write_json(args.out_report, found.report)
    operations = sum(found.report["operations"].values())
    print(
        f"{operations} of {found.report['of']} operations, {found.report['seconds']:.0f} s: {found.report['operations']}"
    )


@dataclass(frozen=True)
class Reduced:
    """A reduced program, and how it was found."""

    text: str
    report: dict


def reduce(text: str, flags: Sequence[str], budget_s: float) -> Reduced:
    """Reduce a program that fails to compile with these flags. Raises NotReducible."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        compiler = oracle.Compiler(tool("iree-compile"), tuple(flags), Path(folder))
        whole = compiler.run(text, budget_s)
        if whole.failure is None:
            raise NotReducible("it compiles; there is no failure to reduce it for")
        limit_s = max(LEAST_S, SLOWER * (time.monotonic() - started))
        wanted = signature.of(whole.failure)
        program = Program(text)

        def fails(part: str) -> bool:
            found = compiler.run(part, limit_s).failure
            return found is not None and signature.of(found) == wanted

        steps = Search(lambda keep: fails(program.part(keep)), started + budget_s)
        named = program.at_lines(signature.lines(whole.log))
        kept = search.reduce(program.operations, named, program.neighbours, steps)
        if kept is None:
            raise NotReducible(
                "its operations, taken out of the program, do not fail in the same way"
            )
        results = search.fewer(
            program.results(kept),
            lambda some: not steps.is_over and fails(program.part(kept, some)),
        )
        reduced = program.part(kept, results)
    report = {
        "operations": dict(search.by_count(program.name(one) for one in sorted(kept))),
        "of": len(program.operations),
        "tests": steps.tests,
        "seconds": round(time.monotonic() - started, 1),
        "complete": not steps.is_over,
        "signature": list(wanted),
    }
    return Reduced(reduced, report)


if __name__ == "__main__":
    main()
