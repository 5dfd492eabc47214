"""Compile a program with iree-compile; write module.vmfb and the compiler's statistics."""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.core import atomic, channel, exits, process
from scripts.iree import added_flags
from scripts.iree.backends import add_arguments, flags_of
from scripts.iree.tools import parse_problem, tool


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.compile_iree", description=__doc__
    )
    add_arguments(parser)
    parser.add_argument("--out-vmfb", required=True, type=Path)
    parser.add_argument("--out-report", required=True, type=Path)
    args = parser.parse_args()

    added = added_flags.of(args.program, args.flags)
    statistics = args.out_vmfb.with_name("statistics.json")
    run = process.run_tool(
        [
            tool("iree-compile"),
            *flags_of(args),
            *added,
            "--iree-scheduling-dump-statistics-format=json",
            f"--iree-scheduling-dump-statistics-file={statistics}",
            str(args.program),
            "-o",
            str(args.out_vmfb),
        ]
    )
    if run.returncode != 0:
        if args.toolchain and (why := parse_problem(args.program)):
            exits.fail(
                f"iree-compile of the toolchain {args.toolchain} cannot parse the program, which the "
                f"pinned IREE has written: {why}",
                reason="program-version",
            )
        process.exit_like(run.returncode)
    execution = atomic.read_json(statistics)["stream-aggregate"]["execution"]
    statistics.unlink()
    atomic.write_json(
        args.out_report,
        {
            "compile_s": round(run.seconds, 3),
            "max_rss_mb": round(run.max_rss_mb, 1),
            "vmfb_bytes": args.out_vmfb.stat().st_size,
            "dispatch_count": execution["dispatch-count"],
            "added_flags": added,
        },
    )


if __name__ == "__main__":
    main()
