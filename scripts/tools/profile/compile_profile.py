"""Where the time of iree-compile goes: its passes, its phases, and each executable compiled alone."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.core import process
from scripts.core.process import Limits, ToolRun
from scripts.iree.tools import tool
from scripts.supervise import outcome
from scripts.supervise.diagnose import diagnose

FILE = "compile.json"
TIMING = ("--mlir-disable-threading", "--mlir-timing", "--mlir-timing-display=tree", "--mlir-output-format=json")  # fmt: skip
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


class NoTree(Exception):
    """The compiler did not print the times of its passes; says what was found."""


@dataclass(frozen=True)
class Share:
    """A pass or a phase, and the seconds that it took by itself."""

    name: str
    s: float


def passes(printed: str) -> tuple[list[Share], float]:
    """The passes, each with its own seconds in all pipelines together, the slowest first; and the seconds of the compiler.

    `printed`: what iree-compile prints with TIMING, with diagnostics before or after it. The rest of the compiler's seconds is
    spent between passes, such as in the verifier and the parser, or in those of RUN_OTHERS themselves. Raises NoTree.
    """
    begin = printed.find("[\n{")
    if begin < 0:
        raise NoTree(f"no times of passes in what iree-compile printed: {printed[-200:]!r}")
    tree, _ = json.JSONDecoder().raw_decode(printed[begin:])
    own: dict[str, float] = defaultdict(float)
    for node in tree:
        if node["name"] not in _TOTALS:
            _add_own(node, own)
    total = next(node["wall"]["duration"] for node in tree if node["name"] == "Total")
    shares = [Share(name, round(s, 4)) for name, s in own.items()]
    return sorted(shares, key=lambda share: -share.s), total


def _add_own(node: Mapping[str, Any], own: dict[str, float]) -> None:
    """Add the seconds of a node without those of its children to `own`, by the name of the pass."""
    inside = [child for child in node["passes"] if child]  # a leaf has one that is empty
    name = node["name"].rpartition("::")[2]
    if not _PIPELINE.search(name) and name not in RUN_OTHERS:
        own[name] += node["wall"]["duration"] - sum(child["wall"]["duration"] for child in inside)
    for child in inside:
        _add_own(child, own)


def phases(folder: Path, started: float, seconds: float) -> list[Share]:
    """The phases that ended, in their order: each ends when the compiler writes its file. `folder`: that of
    --dump-compilation-phases-to; `started`: when the compiler was started (time.time); `seconds`: how long it has run.

    Empty if the times of the files do not fit that, because a clock was set or is another one than that of the file system.
    """
    files = [(m, path) for path in folder.glob("*.mlir") if (m := _PHASE.search(path.name))]
    shares = []
    for match, path in sorted(files, key=lambda file: int(file[0]["number"])):
        ended = path.stat().st_mtime
        shares.append(Share(match["name"], round(ended - started, 3)))
        started = ended
    fit = all(share.s >= 0 for share in shares) and sum(share.s for share in shares) <= seconds + 1
    return shares if fit else []


@dataclass(frozen=True)
class Compilation:
    """The outcome of a compilation of a program or an executable. `detail`: the limit, or its message; "" if it is ok."""

    status: str
    seconds: float
    cpu_s: float
    max_rss_mb: float
    detail: str = ""


def compilation(run: ToolRun, printed: str, limits: Limits) -> Compilation:
    """The outcome of a run of iree-compile under limits; `printed`: its output."""
    status, detail = outcome.OK, ""
    if run.stopped_for == "timeout":
        status, detail = run.stopped_for, f"still running after {limits.seconds:g} s"
    elif run.stopped_for:
        status, detail = run.stopped_for, f"needs more than {limits.memory_mb:.0f} MiB"
    elif run.returncode:
        failure = diagnose(run.returncode, printed)
        status, detail = failure.status, failure.detail
    return Compilation(
        status, round(run.seconds, 3), round(run.cpu_s, 3), round(run.max_rss_mb, 1), detail
    )


def run_compiler(words: Sequence[str], limits: Limits, log: Path) -> tuple[Compilation, str]:
    """Run iree-compile under limits: the outcome, and what it printed, which is also in the file `log`."""
    with log.open("w", encoding="utf-8") as output:
        run = process.run_tool([tool("iree-compile"), *words], limits, output)
    printed = log.read_text(encoding="utf-8", errors="replace")
    return compilation(run, printed, limits), printed


def executables(
    folder: Path, flags: Sequence[str], limits: Limits, log: Path
) -> Iterator[dict[str, Any]]:
    """Compile each executable alone, the one after the other. `folder`: that of --iree-hal-dump-executable-sources-to.

    Of those that fail, the source comes with them.
    """
    for path in sorted(folder.glob("*.mlir")):
        source = path.read_text(encoding="utf-8")
        named = _EXECUTABLE.search(source)
        words = (*flags, "--compile-mode=hal-executable", str(path), "-o", "/dev/null")
        ended, _ = run_compiler(words, limits, log)
        yield {
            "name": named["name"] if named else path.stem,
            "functions": EXPORT.findall(source),
            **asdict(ended),
            "source": source if ended.status != outcome.OK else "",
        }


def described(
    compiled: Collection[Mapping[str, Any]], nodes_of: Mapping[str, Sequence[Sequence[Any]]]
) -> list[dict[str, Any]]:
    """Executables, the one with the most CPU seconds first, each with the nodes of the graph that it computes. `nodes_of`: by
    function."""
    by_time = sorted(compiled, key=lambda executable: -executable["cpu_s"])
    return [
        {
            **executable,
            "nodes": [node for name in executable["functions"] for node in nodes_of.get(name, ())],
        }
        for executable in by_time
    ]
