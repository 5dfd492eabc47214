"""Write where the time of iree-compile goes: the time of each pass and phase, and of each executable compiled alone.

The program is compiled again, on one thread. Then every executable is compiled by itself, under the same limits. So if the program
does not compile within them, the executables that hang are known, and their sources are written too.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits, process, requests
from scripts.core.process import Limits
from scripts.core.requests import Folders
from scripts.frontends.lowering.locations import Locations
from scripts.iree.compile_options import SERIAL, CompileRequest
from scripts.iree.tools import tool
from scripts.supervise import outcome
from scripts.supervise.diagnose import diagnose
from scripts.tools.profile import sites

FILE = "compile.json"
SHARE = 0.9
"""The share of the stage's limits that each compilation has: at the limits themselves, the stage is killed."""
TIMING = (SERIAL, "--mlir-timing", "--mlir-timing-display=tree", "--mlir-output-format=json")
"""Without threads, because only then do the times of passes add up to that of the compiler."""
LAST_BEFORE_CODE = "executable-sources"
"""The phase after which each executable is compiled. A compiler that hangs does so in most cases later."""
RUN_OTHERS = frozenset(
    {
        *("OpPipelineAdaptorPass", "FixedPointIteratorPass", "AutoInputConversionPipelinePass"),
        *("AttrBasedPipelinePass", "MaterializeHomogeneousEncodingsPass", "JitGlobalsPass"),
        *("PreprocessExecutablesPass", "ConfigureExecutablesPass"),
        *("ConfigureTargetExecutableVariantsPass", "TranslateAllExecutablesPass"),
        *("TranslateTargetExecutableVariantsPass", "LinkAllExecutablesPass"),
        *("LinkTargetExecutablesPass", "SerializeAllExecutablesPass"),
        *("LLVMCPULowerExecutableTargetPass", "LLVMGPULowerExecutableTargetPass"),
        *("SPIRVLowerExecutableTargetPass", "VMVXLowerExecutableTargetPass"),
        *("LowerExecutableUsingTransformDialectPass", "BufferizeCopyOnlyDispatchesPass"),
    }
)
"""IREE's passes that run a pipeline of other passes (Pass::runPipeline in its sources). MLIR does not write that pipeline
below them but at the root of the tree, so its time would count twice."""
_PIPELINE = re.compile(r"'[^']*' Pipeline$")
_TOTALS = ("Rest", "Total")
_PHASE = re.compile(r"\.(?P<number>\d+)\.(?P<name>[\w-]+)\.mlir$")
_EXECUTABLE = re.compile(r'hal\.executable (?:public |private )?@"?(?P<name>[\w$.]+)')
EXPORT = re.compile(r'hal\.executable\.export (?:public |private )?@"?(?P<name>[\w$.]+)')


@dataclass(frozen=True, kw_only=True)
class CompileProfileRequest(CompileRequest):
    """`locations`: locations.json of the program's export, if there is one. `compiled`: the status file of its compilation; if that
    reached a limit, only its executables are compiled. `limit_s`: seconds for the program, and for each executable."""

    locations: Path
    compiled: Path | None = None
    limit_s: float


def profile_compile(args: CompileProfileRequest, folders: Folders) -> None:
    """Write the times."""
    commands.report_working()
    memory_mb = float(os.environ.get(exits.LIMIT_VARIABLE, math.inf))
    limits = Limits(SHARE * args.limit_s, SHARE * memory_mb)
    flags = args.compiler_flags()
    flags += args.faster_flags(flags)
    before = outcome.read_or_damaged(args.compiled) if args.compiled else None
    reached = before if before and before.status in ("timeout", "oom") else None
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="compile-") as folder:
        scratch = Path(folder).absolute()
        dumped, sources, log = scratch / "phases", scratch / "sources", scratch / "log.txt"
        commands.report_next()
        started = time.time()
        upto = [f"--compile-to={LAST_BEFORE_CODE}"] if reached else []
        dumps = (f"--dump-compilation-phases-to={dumped}", f"--iree-hal-dump-executable-sources-to={sources}")  # fmt: skip
        whole, printed = compiled(args.program, (*flags, *TIMING, *dumps, *upto), limits, log)
        if whole["status"] == outcome.OK:
            by_pass, total_s = passes(printed)
        else:
            by_pass, total_s = [], whole["seconds"]
            print(f"iree-compile of the program: {whole['status']}: {whole['detail']}", flush=True)
        compiled_executables = []
        for executable in executables(sources, flags, limits, log):
            compiled_executables.append(executable)
            print(f"{executable['name']}: {executable['status']}, {executable['cpu_s']} s of CPU time", flush=True)  # fmt: skip
            commands.report_next()
        nodes, kinds = _nodes(args, flags, scratch / "sites") if compiled_executables else ({}, {})
        by_phase = phases(dumped, started, whole["seconds"])
    if reached:
        whole |= {"status": reached.status, "detail": reached.detail}
    atomic.write_json(
        folders.results / FILE,
        {
            "limit_s": limits.seconds,
            "program": whole,
            "stopped_before_code": bool(reached),
            "total_s": total_s,
            "passes": by_pass,
            "phases": by_phase,
            "executables": described(compiled_executables, nodes),
            "kinds": kinds,
        },
    )


def passes(printed: str) -> tuple[list[dict[str, Any]], float]:
    """The passes, each with its own seconds in all pipelines together, the slowest first; and the seconds of the compiler.

    `printed`: what iree-compile prints with TIMING, with diagnostics before or after it. The rest of the compiler's seconds is
    spent between passes, such as in the verifier and the parser, or in those of RUN_OTHERS themselves. Raises ValueError if the compiler did not print them.
    """
    begin = printed.find("[\n{")
    if begin < 0:
        raise ValueError(f"no times of passes in what iree-compile printed: {printed[-200:]!r}")
    tree, _ = json.JSONDecoder().raw_decode(printed[begin:])
    own: dict[str, float] = defaultdict(float)
    for node in tree:
        if node["name"] not in _TOTALS:
            _add_own(node, own)
    total = next(node["wall"]["duration"] for node in tree if node["name"] == "Total")
    slowest_first = sorted(own, key=own.__getitem__, reverse=True)
    return [{"name": name, "s": round(own[name], 4)} for name in slowest_first], total


def _add_own(node: Mapping[str, Any], own: dict[str, float]) -> None:
    """Add the seconds of a node without those of its children to `own`, by the name of the pass."""
    inside = [child for child in node["passes"] if child]  # a leaf has one that is empty
    name = node["name"].rpartition("::")[2]
    if not _PIPELINE.search(name) and name not in RUN_OTHERS:
        own[name] += node["wall"]["duration"] - sum(child["wall"]["duration"] for child in inside)
    for child in inside:
        _add_own(child, own)


def phases(folder: Path, started: float, seconds: float) -> list[dict[str, Any]]:
    """The phases that ended, in their order: each ends when the compiler writes its file. `folder`: that of
    --dump-compilation-phases-to; `started`: when the compiler was started (time.time); `seconds`: how long it has run.

    Empty if the times of the files do not fit that, because a clock was set or is another one than that of the file system.
    """
    files = [(m, path) for path in folder.glob("*.mlir") if (m := _PHASE.search(path.name))]
    shares: list[dict[str, Any]] = []
    for match, path in sorted(files, key=lambda file: int(file[0]["number"])):
        ended = path.stat().st_mtime
        shares.append({"name": match["name"], "s": round(ended - started, 3)})
        started = ended
    each_s = [share["s"] for share in shares]
    return shares if min(each_s, default=0) >= 0 and sum(each_s) <= seconds + 1 else []


def compiled(
    program: Path, flags: Sequence[str], limits: Limits, log: Path
) -> tuple[dict[str, Any], str]:
    """The outcome of a compilation of a program or an executable under limits, as FILE has it, and what iree-compile printed, which is also in the
    file `log`. `detail`: the limit, or its message; "" if it is ok."""
    with log.open("w", encoding="utf-8") as output:
        command = [tool("iree-compile"), *flags, str(program), "-o", "/dev/null"]
        run = process.run_tool(command, limits, output)
    printed = log.read_text(encoding="utf-8", errors="replace")
    status, detail = outcome.OK, ""
    if run.stopped_for == "timeout":
        status, detail = run.stopped_for, f"still running after {limits.seconds:g} s"
    elif run.stopped_for:
        status, detail = run.stopped_for, f"needs more than {limits.memory_mb:.0f} MiB"
    elif run.returncode:
        failure = diagnose(run.returncode, printed)
        status, detail = failure.status, failure.detail
    said = {
        "status": status,
        "seconds": round(run.seconds, 3),
        "cpu_s": round(run.cpu_s, 3),
        "max_rss_mb": round(run.max_rss_mb, 1),
        "detail": detail,
    }
    return said, printed


def executables(
    folder: Path, flags: Sequence[str], limits: Limits, log: Path
) -> Iterator[dict[str, Any]]:
    """Compile each executable alone, the one after the other. `folder`: that of --iree-hal-dump-executable-sources-to.

    Of those that fail, the source comes with them.
    """
    for path in sorted(folder.glob("*.mlir")):
        source = path.read_text(encoding="utf-8")
        named = _EXECUTABLE.search(source)
        ended, _ = compiled(path, (*flags, "--compile-mode=hal-executable"), limits, log)
        yield {
            "name": named["name"] if named else path.stem,
            "functions": EXPORT.findall(source),
            **ended,
            "source": source if ended["status"] != outcome.OK else "",
        }


def described(
    compiled: Iterable[Mapping[str, Any]], nodes_of: Mapping[str, Sequence[Sequence[Any]]]
) -> list[dict[str, Any]]:
    """Executables, the one with the most CPU seconds first, each with the nodes of the graph that it computes. `nodes_of`: by
    function."""
    return [
        {**each, "nodes": [node for name in each["functions"] for node in nodes_of.get(name, ())]}
        for each in sorted(compiled, key=lambda each: -each["cpu_s"])
    ]


def _nodes(
    args: CompileProfileRequest, flags: Sequence[str], folder: Path
) -> tuple[Mapping[str, Sequence[Sequence[Any]]], Mapping[str, str]]:
    """The nodes of the graph (name, operator, module) by the function that computes them, and the classes of modules."""
    if not args.locations.is_file():
        return {}, {}
    located = Locations.from_json(atomic.read_json(args.locations))
    by_function: dict[str, list[Sequence[Any]]] = defaultdict(list)
    for site in sites.sites(args.program, flags, folder):
        known = by_function[site.function]
        known += [node for node in sites.nodes(site, located) if node not in known]
    return by_function, dict(located.modules)


if __name__ == "__main__":
    requests.run(CompileProfileRequest, profile_compile)
