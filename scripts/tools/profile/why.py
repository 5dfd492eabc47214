"""Print why a CPU cell is not as fast as another runtime: the terms of the gap, its largest parts, and the time by nn.Modules and by
dispatch; without a cell, the terms of each model. Of a GPU cell, print what its compiled code needs of the device, also where there is none.

It reads what the target `profile` wrote. The column "limit ms" needs the limits of the machine
(results/machine_limits/cpu/limits.json). With --compile, it prints where the time of iree-compile goes, for any target: by phase,
by pass and by executable, and which executable hangs. The target `compile_time` writes that.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.cell import Cell, Kind
from scripts.config.stages import STATUS
from scripts.core import checkout, exits
from scripts.results import at_hand
from scripts.results.page_sections import NO_LIMIT, Section, as_text
from scripts.results.results_file import BadRecords, read
from scripts.run import outputs
from scripts.run.recorded import NoCase
from scripts.tools.gpu_static import page as gpu_page
from scripts.tools.profile import compile_page, dispatch_view, profile_files
from scripts.tools.profile.account import account
from scripts.tools.profile.page import largest, page, summary


def _options() -> argparse.Namespace:
    """The options of the command line. Exits if some do not go together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "cell",
        nargs="?",
        default="",
        help="such as vit/torchmlir-torch/llvm-cpu; without one, a row per model",
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="RUNTIME|CELL",
        help="a runtime (default: the fastest that was profiled); with --dispatch, a cell of another toolchain or target, or with other flags, whose code of it is compared",
    )
    parser.add_argument(
        "--dispatch",
        metavar="NAME",
        help="what the compiler has chosen for one dispatch, and its inner loop",
    )
    parser.add_argument(
        "--passes",
        action="store_true",
        help="with --dispatch: write its IR after each pass of the compiler, below <results>/bundles/",
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument(
        "--compile", action="store_true", help="the time of iree-compile instead of that of a call"
    )
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    args = parser.parse_args()
    if args.passes and not args.dispatch:
        parser.error("--passes needs --dispatch")
    if args.json and args.dispatch:
        parser.error("--json has the code of all dispatches; leave out --dispatch")
    if not args.cell and (args.dispatch or args.compile or args.json):
        parser.error("--dispatch, --compile and --json need a cell")
    return args


def main() -> None:
    try:
        print(_said(_options()))
    except (profile_files.NoProfile, NoCase, BadRecords, ValueError) as error:
        exits.fail(str(error))


def _said(args: argparse.Namespace) -> str:
    """What is asked for. Raises the exceptions that main expects, which say what is missing."""
    if not args.cell:
        if not (shown := summary(args.results, args.against)):
            command = checkout.run_command("profile")
            raise profile_files.NoProfile(f"{args.results} has no profile; make them: {command}")
        return as_text(shown, width=NO_LIMIT).rstrip()
    _check(args.results, args.cell)
    if args.compile:
        times = compile_page.read(args.results, args.cell)
        return _json(times.cell, times.data) if args.json else compile_page.page(times)
    if described := gpu_page.read(args.results, args.cell):
        return _json(described.cell, described.report) if args.json else gpu_page.page(described)
    profiles = profile_files.read(args.results, args.cell)
    if args.dispatch:
        return as_text(_of_dispatch(args, profiles), width=NO_LIMIT).rstrip()
    accounted = account(profiles, args.against)
    if not args.json:
        return page(profiles, accounted)
    return _json(profiles.cell, asdict(accounted) | {"first": largest(profiles, accounted)})


def _json(cell: Cell, data: Mapping[str, Any]) -> str:
    return json.dumps({"cell": str(cell), **data}, indent=2)


def _of_dispatch(args: argparse.Namespace, profiles: profile_files.Profiles) -> list[Section]:
    """What is shown of one dispatch; what its cells make of it alone is written to files. Raises as main says."""
    accounted = account(profiles)
    sections = dispatch_view.sections(args.results, profiles, accounted, args.dispatch)
    if not (args.passes or args.against):
        return sections
    name = dispatch_view.find(args.dispatch, [each.function for each in accounted.dispatches])
    dispatch = dispatch_view.compiled(args.results, args.cell, name)
    sections += [dispatch_view.passes(dispatch)] if args.passes else []
    if not args.against:
        return sections
    # The difference takes the place of the loop.
    other = dispatch_view.compiled(args.results, args.against, name)
    return [sections[0], *sections[2:], *dispatch_view.difference(dispatch, other)]


def _check(results: Path, name: str) -> None:
    """Raise BadRecords if a profile may be of other files than those at hand: if those of the rows are, and nothing of the cell was
    made again since."""
    rows = results / outputs.JSONL.name
    if not rows.is_file():
        return
    cell = Cell.parse(name, Kind.IREE)
    statuses = [results.parent / stage.path(place, STATUS) for stage, place in stages.of_row(cell)]
    if all(path.stat().st_mtime <= rows.stat().st_mtime for path in statuses if path.is_file()):
        at_hand.check(results, [record.data for record in read(rows) if record["cell"] == name])
