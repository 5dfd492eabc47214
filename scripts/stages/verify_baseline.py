"""Verify a baseline runtime on the same weights and inputs as IREE, or time its calls when its group asks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core import commands
from scripts.core.commands import option
from scripts.torch_runtime.arguments import Work, prepare_process
from scripts.torch_runtime.verify_session import serve, verify_baseline


@dataclass(frozen=True, kw_only=True)
class Options:
    work: Work
    collect: Sequence[str] = option((), help='JSON list of profiles: ["profiler"]')
    cache: Path | None = option(
        None,
        help="folder for what inductor compiles, which the timing uses again (default: a temporary folder)",
    )
    serve: bool = option(False, help="time calls on request (scripts/stages/time_group.py)")
    out: Path


def main() -> None:
    args = commands.parse_options(Options)
    if args.cache and not args.serve:
        shutil.rmtree(args.cache, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="baseline-") as folder:
        prepare_process(args.work)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str((args.cache or Path(folder)).absolute())
        if args.serve:
            prepared = None
            if not args.work.program:
                from scripts.torch_runtime.torch_session import prepare_fork

                prepared = prepare_fork(args.work)
            serve(args.work, prepared)
        else:
            verify_baseline(args.work, args.collect, args.out)


if __name__ == "__main__":
    main()
