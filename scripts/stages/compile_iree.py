"""Compile a program with iree-compile; write module.vmfb and the compiler's statistics."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits, process
from scripts.iree.compile_options import CompileOptions
from scripts.iree.tools import parse_problem, tool
from scripts.lowering import onnx_causes


@dataclass(frozen=True, kw_only=True)
class Options(CompileOptions):
    out_vmfb: Path
    out_report: Path


def main() -> None:
    commands.report_working()
    args = commands.parse_options(Options)
    statistics = args.out_vmfb.with_name("statistics.json")
    said: list[str] = []
    flags = args.compiler_flags()
    run = process.run_tool(
        [
            tool("iree-compile"),
            *flags,
            "--iree-scheduling-dump-statistics-format=json",
            f"--iree-scheduling-dump-statistics-file={statistics}",
            str(args.program),
            "-o",
            str(args.out_vmfb),
        ],
        said=said,
    )
    if run.returncode != 0:
        if args.toolchain and (why := parse_problem(args.program)):
            exits.fail(
                f"iree-compile of the toolchain {args.toolchain} cannot parse the program, which the "
                f"pinned IREE has written: {why}",
                reason="program-version",
            )
        if cause := onnx_causes.of_failure(args.program, flags, run.returncode, said):
            print(f"{exits.CAUSE}{cause}", file=sys.stderr, flush=True)
        process.exit_like(run.returncode)
    planned = atomic.read_json(statistics)["stream-aggregate"]
    statistics.unlink()
    atomic.write_json(
        args.out_report,
        {
            "compile_s": round(run.seconds, 3),
            "cpu_s": round(run.cpu_s, 3),
            "instructions": run.instructions,
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
