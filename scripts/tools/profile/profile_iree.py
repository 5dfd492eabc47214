"""Write how the time of a module's call is divided among its dispatches, and what they compute.

Each dispatch has its time, its workgroups ("tiles"), the operators of the captured graph that it computes, and the
nn.Modules that they come from. The program is compiled again up to the stream phase, with the flags of the target, to
find out which operations a dispatch computes. No row of the results has these times.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, checkout, exits, requests
from scripts.core.requests import Folders
from scripts.frontends.lowering.locations import Locations
from scripts.iree.compile_options import CompileRequest
from scripts.tools.profile import iree_profile as profile
from scripts.tools.profile import rounds, sites
from scripts.tools.profile.iree_profile import CalledModule, Dispatch
from scripts.tools.profile.rounds import CallTimes


@dataclass(frozen=True, kw_only=True)
class ModuleProfileRequest(CompileRequest):
    """`locations`: locations.json of the program's export. `in_turns`: in turns with the other rows of a group (profile_group.py)."""

    called: CalledModule
    locations: Path
    in_turns: bool = False


def profile_iree(args: ModuleProfileRequest, folders: Folders) -> None:
    """Write the profile. Exits if the device is absent."""
    called = args.called
    called.require_device()
    located = _locations(args.locations)
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="profile-") as folder:
        scratch = Path(folder).absolute()
        dispatch_sites = sites.sites(args.program, args.compiler_flags(), scratch / "phases")
        functions = [site.function for site in dispatch_sites]
        dispatches: list[Dispatch] = []

        def take(calls: int) -> list[CallTimes]:
            recorded = profile.run(called, scratch, calls, len(functions))
            dispatches[:], times = profile.per_call(*recorded, functions)
            return times

        measured = rounds.profiled(
            called.load(scratch),
            take,
            lambda place: described(dispatch_sites[place], dispatches[place], located),
            "dispatches",
            args.in_turns,
        )
    atomic.write_json(
        folders.results / "profile.json",
        {
            "runtime": "iree",
            "threads": called.threads,
            "kinds": dict(located.modules),
            **measured,
        },
    )
    rounds.report_written(args.in_turns)


def _locations(path: Path) -> Locations:
    """The locations of the program. Exits if there are none, as in results from before they were written."""
    if not path.exists():
        exits.fail(
            f"{path} does not exist: the program was exported by an older version; export it again "
            f"({checkout.run_command('profile', options='--forcerun export_program')})"
        )
    return Locations.from_json(atomic.read_json(path))


def described(site: sites.Site, dispatch: Dispatch, located: Locations) -> dict[str, Any]:
    """A dispatch with the nodes that it computes (name, operator, module), that of its root first."""
    return asdict(dispatch) | {"nodes": sites.nodes(site, located)}


if __name__ == "__main__":
    requests.run(ModuleProfileRequest, profile_iree)
