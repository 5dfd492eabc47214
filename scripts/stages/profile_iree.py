"""Write how the time of a module's call is divided among its dispatches, and what they compute.

Each dispatch has its time, its workgroups ("tiles"), the operators of the captured graph that it computes, and the
nn.Modules that they come from. The program is compiled again up to the stream phase, with the flags of the target, to find out
which operations a dispatch computes. No row of the results has these times.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.core import atomic, channel, exits
from scripts.features.profile import iree_profile as profile
from scripts.features.profile import sites
from scripts.iree import added_flags, module_arguments
from scripts.iree.backends import add_arguments, flags_of
from scripts.lowering.locations import Locations


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.profile_iree", description=__doc__
    )
    add_arguments(parser)
    parser.add_argument(
        "--locations", required=True, type=Path, help="locations.json of the program's export"
    )
    module_arguments.add(parser)
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    called = module_arguments.Called.of(args)
    located = _locations(args.locations)
    with tempfile.TemporaryDirectory(dir=args.out.parent, prefix="profile-") as folder:
        scratch = Path(folder).absolute()
        flags = [*flags_of(args), *added_flags.of(args.program, args.flags)]
        found = sites.sites(args.program, flags, scratch / "phases")
        events, call_ms = profile.run(called, scratch)
    dispatches, calls = profile.per_call(events, [site.function for site in found])
    atomic.write_json(
        args.out,
        {
            "runtime": "iree",
            "threads": called.threads,
            "calls": calls,
            "call_ms": call_ms,
            "kinds": dict(located.modules),
            "dispatches": described(found, dispatches, located),
        },
    )


def _locations(path: Path) -> Locations:
    """The locations of the program. Exits if there are none, as in results from before they were written."""
    if not path.exists():
        exits.fail(
            f"{path} does not exist: the program was exported by an older version; export it again "
            f"(snakemake profile --forcerun export_program)"
        )
    return Locations.from_json(atomic.read_json(path))


def described(
    found: Sequence[sites.Site], dispatches: Sequence[profile.Dispatch], located: Locations
) -> list[dict[str, Any]]:
    """Each dispatch of the program with its time and the nodes that it computes (name, operator, module), that of its root
    first."""
    return [
        asdict(timed)
        | {
            "nodes": [
                [one.node, one.operator, one.module]
                for one in dict.fromkeys(
                    located.lines[line]
                    for line in (site.root, *site.lines)
                    if line is not None and line in located.lines
                )
            ]
        }
        for site, timed in zip(found, dispatches, strict=True)
    ]


if __name__ == "__main__":
    main()
