"""Compile a program with iree-compile; write module.vmfb and the compiler's statistics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, channel, exits, options, process
from scripts.iree.compile_options import CompileOptions
from scripts.iree.tools import parse_problem, tool


@dataclass(frozen=True, kw_only=True)
class Options(CompileOptions):
    out_vmfb: Path
    out_report: Path


def main() -> None:
    channel.working()
    args = options.parse(Options)
    statistics = args.out_vmfb.with_name("statistics.json")
    run = process.run_tool(
        [
            tool("iree-compile"),
            *args.compiler_flags(),
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
    planned = atomic.read_json(statistics)["stream-aggregate"]
    statistics.unlink()
    atomic.write_json(
        args.out_report,
        {
            "compile_s": round(run.seconds, 3),
            "cpu_s": round(run.cpu_s, 3),
            "max_rss_mb": round(run.max_rss_mb, 1),
            "vmfb_bytes": args.out_vmfb.stat().st_size,
            "dispatch_count": planned["execution"]["dispatch-count"],
            "transient_bytes": planned["execution"]["transient-memory-size"],
            "constant_bytes": planned["global"]["constant-size"],
            "added_flags": args.added_flags(),
        },
    )


if __name__ == "__main__":
    main()
