"""Compile a program with iree-compile; write module.vmfb and the compiler's statistics."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.core import atomic, commands, exits, process, requests
from scripts.core.requests import Folders
from scripts.frontends.lowering import onnx_causes
from scripts.iree import compile_cache
from scripts.iree.compile_cache import CachedCompilation, CompileCache
from scripts.iree.compile_options import CompileRequest
from scripts.iree.tools import identity, parse_problem, tool

MODULE, REPORT = "module.vmfb", "report.json"


def compile_iree(request: CompileRequest, folders: Folders) -> None:
    """Write the module and the report. Exits as iree-compile does if it fails."""
    commands.report_working()
    vmfb, report_file = folders.results / MODULE, folders.results / REPORT
    compiler = tool("iree-compile")
    flags = request.compiler_flags()
    cache = compile_cache.of_environment()
    key = compile_cache.key(request.program, flags, identity(Path(compiler))) if cache else ""
    if cache and _is_known(cache, key, vmfb, report_file):
        return
    statistics = vmfb.with_name("statistics.json")
    said: list[str] = []
    run = process.run_tool(
        [
            compiler,
            *flags,
            *request.faster_flags(flags),
            "--iree-scheduling-dump-statistics-format=json",
            f"--iree-scheduling-dump-statistics-file={statistics}",
            str(request.program),
            "-o",
            str(vmfb),
        ],
        said=said,
    )
    if run.returncode != 0:
        if request.toolchain and (why := parse_problem(request.program)):
            exits.fail(
                f"iree-compile of the toolchain {request.toolchain} cannot parse the program, which the "
                f"pinned IREE has written: {why}",
                reason="program-version",
            )
        if cause := onnx_causes.of_failure(request.program, flags, run.returncode, said):
            said.append(f"{exits.CAUSE}{cause}\n")
            print(said[-1], end="", file=sys.stderr, flush=True)
        if printed := compile_cache.kept_output(run.returncode, said):
            _keep(cache, key, CachedCompilation(printed=printed))
        process.exit_like(run.returncode)
    planned = atomic.read_json(statistics)["stream-aggregate"]
    statistics.unlink()
    report = {
        "vmfb_bytes": vmfb.stat().st_size,
        "dispatch_count": planned["execution"]["dispatch-count"],
        "transient_bytes": planned["execution"]["transient-memory-size"],
        "constant_bytes": planned["global"]["constant-size"],
        "added_flags": request.added_flags(),
    }
    measured = {
        "compile_s": round(run.seconds, 3),
        "cpu_s": round(run.cpu_s, 3),
        "max_rss_mb": round(run.max_rss_mb, 1),
    }
    atomic.write_json(report_file, {**measured, **report, "cached": False})
    _keep(cache, key, CachedCompilation(report), vmfb)


def _is_known(cache: CompileCache, key: str, vmfb: Path, report_file: Path) -> bool:
    """Whether the program was compiled before: then its module and report are written. Exits if it did not compile."""
    known, damage = cache.get(key, vmfb)
    if damage:
        print(f"note: {damage}; it is compiled again", file=sys.stderr, flush=True)
    if known is None:
        return False
    print(f"note: compiled before, in {cache.folder}", file=sys.stderr, flush=True)
    if not known.report:
        print(known.printed, file=sys.stderr, flush=True)
        process.exit_like(1)
    atomic.write_json(report_file, {**known.report, "cached": True})
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
    requests.run(CompileRequest, compile_iree)
