"""Write where the time of iree-compile goes: the time of each pass and phase, and of each executable compiled alone.

The program is compiled again, on one thread. Then every executable is compiled by itself, under the same limits. So if the program
does not compile within them, the executables that hang are known, and their sources are written too.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits, requests
from scripts.core.process import Limits
from scripts.core.requests import Folders
from scripts.frontends.lowering.locations import Locations
from scripts.iree.compile_options import CompileRequest
from scripts.supervise import outcome
from scripts.tools.profile import compile_profile as profile
from scripts.tools.profile import sites

SHARE = 0.9
"""The share of the stage's limits that each compilation has: at the limits themselves, the stage is killed."""


@dataclass(frozen=True, kw_only=True)
class CompileProfileRequest(CompileRequest):
    """`locations`: locations.json of the program's export, if there is one. `compiled`: the status file of its compilation; if that
    reached a limit, only its executables are compiled. `limit_s`: seconds for the program, and for each executable."""

    locations: Path
    compiled: Path | None = None
    limit_s: float


def profile_compile(args: CompileProfileRequest, folders: Folders) -> None:
    """Write the times."""
    commands.report_working()
    memory_mb = float(os.environ.get(exits.LIMIT_VARIABLE, math.inf))
    limits = Limits(SHARE * args.limit_s, SHARE * memory_mb)
    flags = args.compiler_flags()
    flags += args.faster_flags(flags)
    before = outcome.read_or_damaged(args.compiled) if args.compiled else None
    reached = before if before and before.status in ("timeout", "oom") else None
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="compile-") as folder:
        scratch = Path(folder).absolute()
        phases, sources, log = scratch / "phases", scratch / "sources", scratch / "log.txt"
        commands.report_next()
        started = time.time()
        whole, printed = profile.run_compiler(
            [
                *(*flags, *profile.TIMING, f"--dump-compilation-phases-to={phases}"),
                f"--iree-hal-dump-executable-sources-to={sources}",
                *([f"--compile-to={profile.LAST_BEFORE_CODE}"] if reached else []),
                *(str(args.program), "-o", "/dev/null"),
            ],
            limits,
            log,
        )
        if whole.status == outcome.OK:
            passes, total_s = profile.passes(printed)
        else:
            passes, total_s = [], whole.seconds
            print(f"iree-compile of the program: {whole.status}: {whole.detail}", flush=True)
        compiled = []
        for executable in profile.executables(sources, flags, limits, log):
            compiled.append(executable)
            print(f"{executable['name']}: {executable['status']}, {executable['cpu_s']} s of CPU time", flush=True)  # fmt: skip
            commands.report_next()
        nodes, kinds = _nodes(args, flags, scratch / "sites") if compiled else ({}, {})
        ended = profile.phases(phases, started, whole.seconds)
    if reached:
        said = {"status": reached.status, "detail": reached.detail}
        whole = profile.Compilation(**asdict(whole) | said)
    atomic.write_json(
        folders.results / profile.FILE,
        {
            "limit_s": limits.seconds,
            "program": asdict(whole),
            "stopped_before_code": bool(reached),
            "total_s": total_s,
            "passes": list(map(asdict, passes)),
            "phases": list(map(asdict, ended)),
            "executables": profile.described(compiled, nodes),
            "kinds": kinds,
        },
    )


def _nodes(
    args: CompileProfileRequest, flags: Sequence[str], folder: Path
) -> tuple[Mapping[str, Sequence[Sequence[Any]]], Mapping[str, str]]:
    """The nodes of the graph (name, operator, module) by the function that computes them, and the classes of modules."""
    if not args.locations.is_file():
        return {}, {}
    located = Locations.from_json(atomic.read_json(args.locations))
    by_function: dict[str, list[Sequence[Any]]] = defaultdict(list)
    for site in sites.sites(args.program, flags, folder):
        known = by_function[site.function]
        known += [node for node in sites.nodes(site, located) if node not in known]
    return by_function, dict(located.modules)


if __name__ == "__main__":
    requests.run(CompileProfileRequest, profile_compile)
