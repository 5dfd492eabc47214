"""Worker: compile the programs of operator problems, each into a module of its own.

The process loads IREE's compiler once. For a small program, half of the time of iree-compile is its start.
"""

from __future__ import annotations

import ctypes
import faulthandler
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iree.compiler.api import Output, Session, Source, ctypes_dl

from scripts.core import requests
from scripts.core.requests import Folders
from scripts.iree import compile_cache, tools
from scripts.iree.backends import INPUT_PLUGINS, unused_plugins
from scripts.iree.compile_cache import CachedCompilation, CompileCache
from scripts.iree.compile_options import SERIAL, TargetOptions, flags_keeping_float64
from scripts.tools.operators.batch import batch_worker
from scripts.tools.operators.problems.problem import ENTRY, PROGRAM, Problem

CACHE = Path("results/cache/compile")
"""The cache of a checkout that has no shared one."""
MODULE = "module.vmfb"
SHORTEST = """\
func.func @main(%arg0: tensor<1xf32>) -> tensor<1xf32> {
  %0 = arith.negf %arg0 : tensor<1xf32>
  return %0 : tensor<1xf32>
}
"""
"""A program with one dispatch of one element: its latency is the overhead of a call."""


@dataclass(frozen=True, kw_only=True)
class OperatorCompileRequest(batch_worker.TasksRequest):
    target: TargetOptions


def compile_operators(request: OperatorCompileRequest, folders: Folders) -> None:
    """Compile the programs, each in a folder of its own, and the shortest one."""
    batch_worker.serve(request, _Compiling(request.target, folders.results).handle)


class _Compiling:
    """Compiles programs for a target. `out`: the folder of the modules."""

    def __init__(self, target: TargetOptions, out: Path) -> None:
        self._out = out
        # One thread: several batches use several cores better than the threads of one.
        self._flags = [*target.compiler_flags(), SERIAL]
        compiler = tools.tool("iree-compile")
        self._identity = tools.identity(Path(compiler))
        # A session takes neither the global flags of LLVM nor those of plugins. Programs may need all plugins of inputs.
        plugins = unused_plugins(self._flags, str(INPUT_PLUGINS))
        words = [word.encode() for word in ("iree-compile", *self._flags, *plugins)]
        self._arguments = (ctypes.c_char_p * len(words))(*words)  # LLVM prints them after a crash
        faulthandler.disable()  # LLVM prints the stack of a crash, with the pass
        ctypes_dl._dylib.ireeCompilerSetupGlobalCL(len(words), self._arguments, b"", True)
        shared = compile_cache.of_environment()
        if shared:
            compile_cache.trim(shared.folder, shared.most_bytes)
        self._cache = CompileCache(shared.folder / "operators" if shared else CACHE, float("inf"))

    def handle(self, payload: dict[str, Any], facts: dict[str, Any]) -> None:
        folder = self._out / Problem(payload["op"], payload["args"]).name
        exported = Path(payload["before"]["operator_export"]["folder"])
        facts |= self._compiled(exported / PROGRAM, folder / MODULE)
        facts["files"] = batch_worker.record_files(folder, [MODULE])
        facts["shortest"] = self._shortest()

    def _shortest(self) -> dict[str, Any]:
        """The module of the shortest program, which all problems share."""
        program = self._out / "shortest" / PROGRAM
        module = program.with_name(MODULE)
        if not module.is_file():
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(SHORTEST, encoding="utf-8")
            self._compiled(program, module)
        return {"module": str(module), "function": ENTRY}

    def _compiled(self, program: Path, module: Path) -> dict[str, Any]:
        """Compile a program, or take its module from the cache. Returns the result of its problem."""
        module.parent.mkdir(parents=True, exist_ok=True)
        flags = flags_keeping_float64(program.read_text(encoding="utf-8"), self._flags)
        key = compile_cache.key(program, [*self._flags, *flags], self._identity)
        known, damage = self._cache.get(key, module)
        if damage:
            print(f"note: {damage}; it is compiled again", file=sys.stderr, flush=True)
        is_cached = known is not None
        if known is None:
            command = ["iree-compile", *self._flags, *flags, str(program), "-o", str(module)]
            print(f"# {shlex.join(command)}", flush=True)
            started = time.monotonic()
            _compile(program, module, flags)
            known = CachedCompilation({"seconds": round(time.monotonic() - started, 4)})
            self._cache.put(key, known, module)
        return {
            **known.report,
            "cached": is_cached,
            "module": str(module),
            "function": ENTRY,
            "vmfb_bytes": module.stat().st_size,
        }


def _compile(program: Path, module: Path, flags: Sequence[str]) -> None:
    """Compile a program. Exits with 1 after the compiler's diagnostics if that fails."""
    with Session() as session, session.invocation() as invocation:
        session.set_flags(*flags)
        invocation.enable_console_diagnostics()
        source = Source.open_file(session, str(program))
        if not (invocation.parse_source(source) and invocation.execute()):
            raise SystemExit(1)
        with Output.open_file(str(module)) as output:
            invocation.output_vm_bytecode(output)
            output.keep()


if __name__ == "__main__":
    requests.run(OperatorCompileRequest, compile_operators)
