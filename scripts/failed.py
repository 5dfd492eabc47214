"""List the stages that failed: which cell, why, its log, and the command that repeats it."""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from pathlib import Path

from scripts.lib.config.matrix import Matrix, baseline_cell
from scripts.lib.core import atomic
from scripts.lib.supervision import outcome
from scripts.lib.supervision.outcome import Outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.failed", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--stage", default="*", help="glob, such as compile")
    parser.add_argument("--status", default="*", help="glob, such as crashed")
    parser.add_argument("--cell", default="*", help="glob, such as 'resnet/*/vulkan'")
    parser.add_argument("--commands", action="store_true", help="print only the commands")
    args = parser.parse_args()
    wanted = [
        o for o in failures(args.results)
        if fnmatchcase(o.stage, args.stage) and fnmatchcase(o.status, args.status)
        and fnmatchcase(o.cell, args.cell)
    ]  # fmt: skip
    for one in wanted:
        if args.commands:
            print(one.command)
            continue
        print(f"{one.stage} {one.cell}: {one.status} ({one.reason})")
        print(f"    {one.detail}")
        print(f"    log:    {one.log}\n    repeat: {one.command}\n")
    if not args.commands:
        print(f"{len(wanted)} failed stages")
    return 0


def failures(results: Path) -> list[Outcome]:
    """Every stage of the last run's matrix that failed by its own fault.

    Skipped ones would repeat what is listed already; what is left of models or targets that the
    configuration no longer has is not listed.
    """
    found = [outcome.read(path) for path in sorted(results.glob("*/**/status.json"))]
    last = results / "logs" / "matrix.json"
    cells = _cells(Matrix.from_json(atomic.read_json(last))) if last.exists() else None
    return [
        one
        for one in found
        if one.status in outcome.FAILED
        and (cells is None or one.stage == "env" or one.cell in cells)
    ]


def _cells(matrix: Matrix) -> set[str]:
    """Every cell of every stage of a matrix: its paths below results/<stage>/."""
    found = set(matrix.models)
    for model, frontend, target in matrix.cells():
        found |= {f"{model.name}/{frontend.name}", f"{model.name}/{frontend.name}/{target.name}"}
        found.add(f"{model.name}/iree/{frontend.name}/{target.name}")  # its dumps
    found |= {f"{m.name}/{name}" for m in matrix.models.values() for name in matrix.programs}
    return found | {baseline_cell(m.name, b.name, t) for m, b, t in matrix.baseline_cells()}


if __name__ == "__main__":
    raise SystemExit(main())
