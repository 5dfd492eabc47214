"""List the stages that failed: which cell, why, its log, and the command that repeats it."""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from pathlib import Path

from scripts.lib import outcome
from scripts.lib.outcome import Outcome


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
    """Every stage that failed by its own fault; skipped ones repeat what is listed already."""
    found = [outcome.read(path) for path in sorted(results.glob("*/**/status.json"))]
    return [one for one in found if one.status in outcome.FAILED]


if __name__ == "__main__":
    raise SystemExit(main())
