"""Compile a program with iree-compile; write module.vmfb and the compiler's statistics."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits, process, requests
from scripts.core.requests import Folders
from scripts.frontends.lowering.locations import Locations, below, lines_of
from scripts.iree import compile_cache
from scripts.iree.compile_cache import CachedCompilation, CompileCache
from scripts.iree.compile_options import CompileRequest
from scripts.iree.tools import identity, parse_problem, tool
from scripts.tools.gpu_static import facts

MODULE, REPORT = "module.vmfb", "report.json"
SEARCH_CPU_S = 120
"""CPU seconds of the compilation that is repeated after a crash."""
_ERROR = re.compile(r"^(?P<file>\S+?):(?P<line>\d+):\d+: error: ")
_CRASHED = re.compile(
    r"failed while executing `(?P<name>\w+)` on '[\w.]+' operation(?:: @(?P<symbol>\S+))?: reproducer"
)
_RESULTS = re.compile(r"^\s*(%[\w$.-]+(?:, %[\w$.-]+)*)(?::\d+)? = ")


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
    with facts.dumps(request.backend, folders.results) as dumps:
        run = process.run_tool(
            [
                compiler,
                *flags,
                *request.faster_flags(flags),
                *dumps.flags,
                "--iree-scheduling-dump-statistics-format=json",
                f"--iree-scheduling-dump-statistics-file={statistics}",
                str(request.program),
                "-o",
                str(vmfb),
            ],
            said=said,
        )
        of_gpu = {} if run.returncode else dumps.report(request.backend, request.arch)
    if run.returncode != 0:
        if request.toolchain and (why := parse_problem(request.program)):
            exits.fail(
                f"iree-compile of the toolchain {request.toolchain} cannot parse the program, which the "
                f"pinned IREE has written: {why}",
                reason="program-version",
            )
        if cause := cause_in_program(request.program, flags, run.returncode, said):
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
        **of_gpu,
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


def cause_in_program(
    program: Path, flags: Sequence[str], returncode: int, said: Iterable[str]
) -> str:
    """In words, the operators because of which a compilation with `flags` ended with `returncode` (negative: signal) and
    printed the lines `said`; "" for a program that is not of an ONNX file, and for a diagnostic that names no line of it.

    After a crash, the program is compiled again, so that the compiler says in which pass and function it crashes.
    """
    located = program.with_name("locations.json")
    if not located.is_file():
        return ""
    lines = Locations.from_json(atomic.read_json(located)).lines
    origins = {line: origin.operator for line, origin in lines.items()}
    if not any(operator.startswith("onnx.") for operator in origins.values()):
        return ""
    if returncode < 0:
        return _of_crash(program, flags, origins)
    first = next(filter(None, map(_ERROR.match, said)), None)
    if first is None or Path(first["file"]) != program:
        return ""
    operators = _at(int(first["line"]), origins, program.read_text(encoding="utf-8").splitlines())
    return f"of {', '.join(operators)}" if operators else ""


def _at(line: int, origins: dict[int, str], text: Sequence[str]) -> list[str]:
    """The operator of a line of the program; if it has none, such as a constant that several share, those of all lines that use it."""
    if line in origins:
        return [origins[line]]
    defined = _RESULTS.match("".join(text[line - 1 : line]))
    if defined is None:
        return []
    names = "|".join(re.escape(name) for name in defined[1].split(", "))
    used = re.compile(rf"(?:{names})(?![\w$.-])")
    users = [at for at, other in enumerate(text, 1) if at != line and used.search(other)]
    known = [origins.get(at, "") for at in users]
    return list(dict.fromkeys(known)) if all(known) else []


def _of_crash(program: Path, flags: Sequence[str], origins: dict[int, str]) -> str:
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        reproducer = Path(folder, "reproducer.mlir")
        command = [
            *(tool("iree-compile"), *flags, "--mlir-disable-threading", "--mlir-print-debuginfo"),
            *("--mlir-pass-pipeline-local-reproducer", f"--mlir-pass-pipeline-crash-reproducer={reproducer}"),
            *(str(program), "-o", "/dev/null"),
        ]  # fmt: skip
        done = process.captured(command, cpu_s=SEARCH_CPU_S)
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"operator not known: a second compilation took more than {SEARCH_CPU_S} s of CPU time"
        crashed = _CRASHED.search(done.stderr)
        if crashed is None:
            return "operator not known: a second compilation did not say in which pass it crashes"
        if crashed["symbol"] is None:
            return f"operator not known: {crashed['name']} works on the whole program"
        lines = _lines_in(reproducer.read_text(encoding="utf-8"), crashed["symbol"], {str(program), "-"})  # fmt: skip
    operators = [*dict.fromkeys(origins[line] for line in lines if line in origins)]
    where = f"{crashed['name']} crashes on {crashed['symbol']}"
    return f"{where}, which computes {', '.join(operators)}" if operators else f"operator not known: {where}, which has no locations"  # fmt: skip


def _lines_in(text: str, symbol: str, files: Collection[str]) -> tuple[int, ...]:
    """The lines of a program that the operations inside the function or executable `symbol` of a reproducer are of."""
    from iree.compiler import ir

    def named(operation: Any) -> bool:
        return "sym_name" in operation.attributes and ir.StringAttr(operation.attributes["sym_name"]).value == symbol.strip('"')  # fmt: skip

    with ir.Context():
        module = ir.Module.parse(text)
        inside = [op for outer in below(module.operation) if named(outer) for op in below(outer)]
        return lines_of(inside, files)


if __name__ == "__main__":
    requests.run(CompileRequest, compile_iree)
