"""Test each distinct dispatch of a program: compile it with some flags, run it on a device, and compare its outputs with right ones.

With a program, the dispatches are written first, each as a program of its own with random inputs. A dispatch is written as the
operations of the program that the compiler has put into it, so that the whole compiler is tested and not only its code generation.
The right outputs are those of `right_flags` on a CPU.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits, requests
from scripts.core.commands import option
from scripts.core.requests import Folders
from scripts.iree import session
from scripts.iree.backends import runs_on_cpu
from scripts.iree.tools import Compiler
from scripts.tools.profile import sites
from scripts.tools.profile.sites import PhaseError
from scripts.tools.reproduce import dispatches, mismatch
from scripts.tools.reproduce.dispatches import TESTED
from scripts.tools.reproduce.reduced_program import NotReducible


@dataclass(frozen=True, kw_only=True)
class DispatchesRequest:
    """`tests`: a folder with one folder per dispatch; they are there if there is no `program`. `flags`: all of iree-compile. `right_flags`:
    those for a CPU with right results. `device`: URI of IREE. `budget`: seconds to write the dispatches, and to test them.
    `modules`: a folder for the modules of what is right."""

    tests: Path
    program: Path | None = None
    flags: list[str]
    right_flags: list[str] = option(factory=list)
    device: str = "local-task"
    threads: int = 1
    budget: float = 300.0
    modules: Path | None = None


def run_dispatches(args: DispatchesRequest, folders: Folders) -> None:
    """Write what came out, by folder."""
    with tempfile.TemporaryDirectory() as scratch:
        if args.program:
            _write(args, args.program, Path(scratch))
        deadline = time.monotonic() + args.budget
        said = {}
        compiler = Compiler(tuple(args.flags), Path(scratch))
        missing = _missing(args.device, args.threads)
        test = dispatches.Test(compiler, args.device, args.threads, missing)
        for each in atomic.read_json(args.tests / dispatches.REPORT):
            name = each["functions"][0]
            said[name] = test.outcome(args.tests / name, each, deadline)
            if args.modules and said[name]["status"] == dispatches.RIGHT:
                shutil.copyfile(Path(scratch, mismatch.MODULE), args.modules / f"{name}.vmfb")
    atomic.write_json(folders.results / TESTED, said)


def _write(args: DispatchesRequest, program: Path, scratch: Path) -> None:
    """Write the dispatches of a program, and the report about them. Exits if there are none."""
    deadline = time.monotonic() + args.budget
    phases, right = scratch / "phases", scratch / "right"
    phases.mkdir()
    right.mkdir()
    try:
        dispatch_sites = sites.sites(program, args.flags, phases)
        parts = dispatches.split(program.read_text(encoding="utf-8"), dispatch_sites)
    except (NotReducible, PhaseError) as error:
        exits.fail(f"{program}: {error}")
    if not parts:
        exits.fail(f"{program}: no dispatch computes operations of the program")
    reference = dispatches.Right(Compiler(tuple(args.right_flags), right), args.threads)
    tests = [
        {"functions": names, **reference.write(part, args.tests / names[0], deadline)}
        for part, names in parts.items()
    ]
    atomic.write_json(args.tests / dispatches.REPORT, tests)


def _missing(device: str, threads: int) -> str:
    """Why this machine cannot run programs for a device; "" if it can."""
    if runs_on_cpu(device):
        return ""
    try:
        session.device_info(device, threads)
    except session.NoDevice as error:
        return str(error)
    return ""


if __name__ == "__main__":
    commands.run(lambda: requests.run(DispatchesRequest, run_dispatches))
