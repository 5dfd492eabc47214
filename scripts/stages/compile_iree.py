"""Compile a program with iree-compile; write module.vmfb and the compiler's statistics."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits, process
from scripts.iree import compile_cache
from scripts.iree.compile_cache import CachedCompilation, CompileCache
from scripts.iree.compile_options import CompileOptions
from scripts.iree.tools import identity, parse_problem, tool
from scripts.lowering import onnx_causes


@dataclass(frozen=True, kw_only=True)
class Options(CompileOptions):
    out_vmfb: Path
    out_report: Path


def main() -> None:
    commands.report_working()
    args = commands.parse_options(Options)
    compiler = tool("iree-compile")
    flags = args.compiler_flags()
    cache = compile_cache.of_environment()
    key = compile_cache.key(args.program, flags, identity(Path(compiler))) if cache else ""
    if cache and _is_known(cache, key, args):
        return
    statistics = args.out_vmfb.with_name("statistics.json")
    said: list[str] = []
    run = process.run_tool(
        [
            compiler,
            *flags,
            *args.faster_flags(flags),
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
            said.append(f"{exits.CAUSE}{cause}\n")
            print(said[-1], end="", file=sys.stderr, flush=True)
        if printed := compile_cache.kept_output(run.returncode, said):
            _keep(cache, key, CachedCompilation(printed=printed))
        process.exit_like(run.returncode)
    planned = atomic.read_json(statistics)["stream-aggregate"]
    statistics.unlink()
    report = {
        "vmfb_bytes": args.out_vmfb.stat().st_size,
        "dispatch_count": planned["execution"]["dispatch-count"],
        "transient_bytes": planned["execution"]["transient-memory-size"],
        "constant_bytes": planned["global"]["constant-size"],
        "added_flags": args.added_flags(),
    }
    measured = {
        "compile_s": round(run.seconds, 3),
        "cpu_s": round(run.cpu_s, 3),
        "max_rss_mb": round(run.max_rss_mb, 1),
    }
    atomic.write_json(args.out_report, {**measured, **report, "cached": False})
    _keep(cache, key, CachedCompilation(report), args.out_vmfb)


def _is_known(cache: CompileCache, key: str, args: Options) -> bool:
    """Whether the program was compiled before: then its module and report are written. Exits if it did not compile."""
    known, damage = cache.get(key, args.out_vmfb)
    if damage:
        print(f"note: {damage}; it is compiled again", file=sys.stderr, flush=True)
    if known is None:
        return False
    print(f"note: compiled before, in {cache.folder}", file=sys.stderr, flush=True)
    if not known.report:
        print(known.printed, file=sys.stderr, flush=True)
        process.exit_like(1)
    atomic.write_json(args.out_report, {**known.report, "cached": True})
    return True


def _keep(
    cache: CompileCache | None, key: str, compiled: CachedCompilation, vmfb: Path | None = None
) -> None:
    """Put a compilation into the cache. One that cannot be written, such as that of others, is no reason to fail."""
    try:
        if cache:
            cache.put(key, compiled, vmfb)
    except OSError as error:
        print(f"note: not kept in {cache and cache.folder}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
