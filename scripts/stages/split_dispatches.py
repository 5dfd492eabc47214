"""Write each distinct dispatch of a program as a program of its own, with random inputs and right outputs.

A dispatch is written as the operations of the program that the compiler has put into it, so that the whole compiler is tested and
not only its code generation. The right outputs are those of --right-flags on a CPU.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits, options
from scripts.core.options import option
from scripts.features.profile import sites
from scripts.features.profile.sites import PhaseError
from scripts.features.reproduce.reduction import dispatches
from scripts.features.reproduce.reduction.reduced_program import NotReducible
from scripts.iree.tools import Compiler


@dataclass(frozen=True, kw_only=True)
class Options:
    program: Path
    flags: list[str] = option(help="all flags of iree-compile, as a JSON list")
    right_flags: list[str] = option(help="flags for a CPU with which results are right")
    threads: int = option(1, help="of a CPU")
    budget: float = option(300.0, metavar="SECONDS")
    out: Path = option(help="folder that exists, for one folder per dispatch")


def main() -> None:
    args = options.parse(Options)
    deadline = time.monotonic() + args.budget
    text = args.program.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        phases, right = (Path(scratch, name) for name in ("phases", "right"))
        phases.mkdir()
        right.mkdir()
        try:
            parts = dispatches.split(text, sites.sites(args.program, args.flags, phases))
        except (NotReducible, PhaseError) as error:
            exits.fail(f"{args.program}: {error}")
        if not parts:
            exits.fail(f"{args.program}: no dispatch computes operations of the program")
        reference = dispatches.Right(Compiler(tuple(args.right_flags), right), args.threads)
        tests = [
            {"functions": names, **reference.write(part, args.out / names[0], deadline)}
            for part, names in parts.items()
        ]
    atomic.write_json(args.out / dispatches.REPORT, tests)


if __name__ == "__main__":
    commands.run(main)
