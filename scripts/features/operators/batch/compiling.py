"""The compilation of a batch of problems: their programs, several of them per module."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.features.operators.batch.compiler import Compiler, Limits
from scripts.features.operators.batch.program import FILE, Program
from scripts.features.operators.batch.stage import Batch, Do, cell_of
from scripts.features.operators.batch.together import Compiled, Folders, compile_all
from scripts.supervise import outcome
from scripts.supervise.job import Job
from scripts.supervise.outcomes import Line
from scripts.supervise.watch import Ended

CACHE = Path("results/cache/compile")
SHORTEST = """\
func.func @main(%arg0: tensor<1xf32>) -> tensor<1xf32> {
  %0 = arith.negf %arg0 : tensor<1xf32>
  return %0 : tensor<1xf32>
}
"""
"""A program with one dispatch of one element: its latency is the overhead of a call."""


def in_modules(version: str) -> Do:
    """Return what compiles the programs of a batch with the command of a job, iree-compile and its
    flags. `version`: of the compiler."""

    def do(
        job: Job, known: Mapping[str, Mapping[str, Any]], batch: Batch
    ) -> tuple[list[Line], list[Ended]]:
        folder = job.status_path.parent
        names = {cell_of(job, p.name): p.name for p in batch.problems if p.name in known}
        programs = [
            Program.read(cell, _path(known[name]), folder / "logs" / f"{name}.txt")
            for cell, name in names.items()
        ]
        found: list[Compiled] = []
        processes = compile_all(
            [*programs, _shortest(folder)] if programs else [],
            _compiler(job, version),
            Folders(CACHE, folder / "modules", folder / "work"),
            found.append,
            code=job.fingerprint,
            again=batch.again,
        )
        shortest = next((_module(one) for one in found if one.outcome.cell not in names), {})
        return [
            _line(names[one.outcome.cell], one, job, shortest)
            for one in found
            if one.outcome.cell in names
        ], processes

    return do


def _path(known: Mapping[str, Any]) -> Path:
    """Return the program of a problem, in the folder of the stage before."""
    (exported,) = known.values()
    return Path(exported["folder"], FILE)


def _compiler(job: Job, version: str) -> Compiler:
    tool, *flags = job.command
    limits = Limits(job.timeout_s, job.memory_mb)
    more = {} if job.owner is None else {"owner": job.owner}
    return Compiler(tool, tuple(flags), version, limits, **more)


def _shortest(folder: Path) -> Program:
    path = folder / "shortest.mlir"
    path.write_text(SHORTEST, encoding="utf-8")
    return Program.read("shortest", path, folder / "logs" / "shortest.txt")


def _line(name: str, one: Compiled, job: Job, shortest: Mapping[str, str]) -> Line:
    result: dict[str, Any] = {
        "seconds": one.seconds,
        "together": one.together,
        "cached": one.cached,
    }
    if one.outcome.status == outcome.OK:
        result |= _module(one) | {"shortest": shortest}
        result["vmfb_bytes"] = one.module.stat().st_size if one.module else 0
    ended = dataclasses.replace(one.outcome, stage=job.stage)
    return Line(name, ended, one.seconds, result)


def _module(one: Compiled) -> dict[str, str]:
    """Return the module of a program and its function there; {} if it failed."""
    return {"module": str(one.module), "function": one.function} if one.module else {}
