"""Test the dispatches that scripts.stages.split_dispatches has written, with some flags of iree-compile on a device."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, options
from scripts.core.options import option
from scripts.features.reproduce.reduction import dispatches, mismatch
from scripts.iree import session
from scripts.iree.backends import runs_on_cpu
from scripts.iree.tools import Compiler


@dataclass(frozen=True, kw_only=True)
class Options:
    tests: Path = option(help="folder with a folder per dispatch")
    flags: list[str] = option(help="all flags of iree-compile, as a JSON list")
    device: str = option("local-task", help="IREE device URI")
    threads: int = option(1, help="of a CPU")
    budget: float = option(300.0, metavar="SECONDS")
    modules: Path | None = option(None, help="folder for the modules of what is right")
    out: Path = option(help="JSON: what came out, by folder")


def main() -> None:
    args = options.parse(Options)
    deadline = time.monotonic() + args.budget
    tests = json.loads((args.tests / dispatches.REPORT).read_text(encoding="utf-8"))
    said = {}
    with tempfile.TemporaryDirectory() as scratch:
        compiler = Compiler(tuple(args.flags), Path(scratch))
        missing = _missing(args.device, args.threads)
        test = dispatches.Test(compiler, args.device, args.threads, missing)
        for each in tests:
            name = each["functions"][0]
            said[name] = test.of(args.tests / name, each, deadline)
            if args.modules and said[name]["status"] == dispatches.RIGHT:
                shutil.copyfile(Path(scratch, mismatch.MODULE), args.modules / f"{name}.vmfb")
    atomic.write_json(args.out, said)


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
    commands.run(main)
