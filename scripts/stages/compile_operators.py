"""Compile the programs of a batch of operator problems together, each with an outcome of its own."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path

from scripts.core import commands, requests
from scripts.features.operators.batch import batch_stage
from scripts.features.operators.batch.batch_program import FILE, Program
from scripts.features.operators.batch.batch_stage import Batch, Known
from scripts.features.operators.batch.together import Compilation
from scripts.iree import compile_cache, tools
from scripts.iree.backends import compile_flags
from scripts.iree.compile_options import TargetOptions
from scripts.run import job_arguments
from scripts.supervise import supervise
from scripts.supervise.job import Job
from scripts.supervise.outcome import ProblemEnd
from scripts.supervise.watch import Ended

CACHE = Path("results/cache/compile")
SHORTEST = "shortest"
SHORTEST_PROGRAM = """\
func.func @main(%arg0: tensor<1xf32>) -> tensor<1xf32> {
  %0 = arith.negf %arg0 : tensor<1xf32>
  return %0 : tensor<1xf32>
}
"""
"""A program with one dispatch of one element: its latency is the overhead of a call."""


def main() -> int:
    parser = job_arguments.parser("compile_operators", __doc__)
    commands.add_options(parser, batch_stage.Options)
    args = parser.parse_args()
    job = job_arguments.job(args)
    assert job.request is not None
    python = job.request.python
    environment = Path(shutil.which(python) or python).parent.parent
    # If the environment could not be made, there is no compiler, and the supervisor skips the batch.
    compiler = tools.program("iree-compile", environment) or environment / "bin/iree-compile"
    target = requests.decode(TargetOptions, job.request.fields)
    flags = compile_flags(target.backend, target.arch, target.opt_level, target.flags)
    job = dataclasses.replace(job, command=[str(compiler), *flags], request=None)
    identity = tools.identity(compiler) if compiler.is_file() else ""

    def do(job: Job, known: Known, batch: Batch) -> tuple[list[ProblemEnd], list[Ended]]:
        return compile_batch(job, identity, known, batch)

    work = batch_stage.work(commands.options_of(batch_stage.Options, args).batch(job), do)
    return job_arguments.run(job, lambda: supervise.run(job, work))


def compile_batch(
    job: Job, compiler: str, known: Known, batch: Batch
) -> tuple[list[ProblemEnd], list[Ended]]:
    """Compile the programs of a batch with the command of a job: iree-compile and its flags. `compiler`: its identity."""
    folder = job.status_path.parent
    programs = []
    for name, (exported,) in ((name, before.values()) for name, before in known.items()):
        path = Path(exported["folder"], FILE)
        programs.append(Program.read(name, path, folder / "logs" / f"{name}.txt"))
    if programs:
        path = folder / "shortest.mlir"
        path.write_text(SHORTEST_PROGRAM, encoding="utf-8")
        programs.append(Program.read(SHORTEST, path, folder / "logs" / "shortest.txt"))
    lines: list[ProblemEnd] = []
    shared = compile_cache.of_environment()
    cache = shared.folder / "operators" if shared else CACHE
    processes = Compilation(job, compiler, cache, batch.again).run(programs, lines.append)
    if shared:
        compile_cache.trim(shared.folder, shared.most_bytes)
    by_name = {line.problem: line for line in lines}
    shortest = by_name.pop(SHORTEST).result if programs else {}
    function = {key: shortest[key] for key in ("module", "function") if key in shortest}
    with_shortest = []
    for line in by_name.values():
        result = dict(line.result)
        if "module" in result:
            result[SHORTEST] = function
        with_shortest.append(dataclasses.replace(line, result=result))
    return with_shortest, processes


if __name__ == "__main__":
    sys.exit(main())
