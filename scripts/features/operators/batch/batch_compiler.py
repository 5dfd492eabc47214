"""Run iree-compile on one program, or on a module of several, with the limits of a supervisor."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.features.operators.batch.batch_program import ENTRY, Program, combine, errors
from scripts.iree import added_flags
from scripts.iree.backends import unused_plugins
from scripts.supervise import supervise
from scripts.supervise.caplog import CappedLog
from scripts.supervise.diagnose import Diagnosis, diagnose
from scripts.supervise.job import Job
from scripts.supervise.watch import Ended, Watch

TOGETHER_FLOOR_S = 10.0
"""Minimum CPU-time limit in seconds of a module of several programs."""
ONE_THREAD = "--mlir-disable-threading"
"""A batch takes one core. Several batches use several cores better than the threads of one."""
NO_SYMBOLS = "--disable-symbolication"
"""The stack of a crash that concerns several programs is not shown, and looking up its symbols takes
as long as a small program."""


@dataclass(frozen=True)
class Limits:
    """The limits of a compilation.

    `timeout_s`: wall seconds of one program compiled alone. `together_s`: CPU seconds per program
    of a module of several; CPU time depends little on other work on the machine. (Convolutions in
    f16 take 1 to 2 s.) A module that takes longer is split, and none of its programs fails because
    of that. `memory_mb`: MiB of the process tree.
    """

    timeout_s: float
    memory_mb: float
    together_s: float = 3.0


@dataclass(frozen=True)
class Tried:
    """The result of compiling some programs as one module.

    `diagnosis`: of all of them, without the line, which belongs to a single program; None if they
    compiled. `printed`: the compiler's output. `functions`: the names of the programs in the module.
    `blamed`: the diagnosis and output of the programs of a module that have failed, by their number.
    `says_all`: whether that is what they print if compiled alone; it may not be if there are errors
    that no program can be blamed for.
    """

    diagnosis: Diagnosis | None
    ended: Ended
    printed: str
    vmfb: Path
    functions: tuple[str, ...]
    blamed: Mapping[int, tuple[Diagnosis, str]]
    says_all: bool


@dataclass(frozen=True)
class Compiler:
    """iree-compile with the flags of a target. `version`: part of the key of a cached result.
    `owner`: the process that must stay the parent of this one."""

    tool: str
    flags: tuple[str, ...]
    version: str
    limits: Limits
    owner: int = dataclasses.field(default_factory=os.getppid)

    def command(self, source: Path, vmfb: Path, *more: str) -> list[str]:
        return [self.tool, *self.flags, *more, str(source), "-o", str(vmfb)]

    def own_flags(self, program: Program) -> list[str]:
        """Return the flags that a program needs besides those of the target."""
        return added_flags.keeping_float64(program.text, self.flags)

    def run(self, programs: Sequence[Program], work: Path) -> Tried:
        """Compile programs as one module, in the folder `work`. Raises job.Interrupted if the run
        is stopped or its parent has died, job.CannotStart if the compiler does not exist, and
        OSError if `work` cannot be written."""
        count, limits, vmfb = len(programs), self.limits, work / "module.vmfb"
        vmfb.unlink(missing_ok=True)
        if count == 1:
            combined, text, source = None, programs[0].text, programs[0].path
            own, cpu_s = self.own_flags(programs[0]), None
        else:
            combined = combine(programs)
            text, source = combined.text, work / "module.mlir"
            source.write_text(text, encoding="utf-8")
            own, cpu_s = [NO_SYMBOLS], max(TOGETHER_FLOOR_S, count * limits.together_s)
        more = [ONE_THREAD, *unused_plugins(self.flags, text), *own]
        job = Job(
            stage="compile",
            cell=programs[0].name,
            status_path=work / "status.json",
            log_path=work / "log.txt",
            command=self.command(source, vmfb, *more),
            timeout_s=limits.timeout_s + (count - 1) * limits.together_s,
            memory_mb=limits.memory_mb,
            artifacts=(vmfb,),
            cpu_s=cpu_s,
        )
        with contextlib.closing(CappedLog(job.log_path)) as log:
            watch = Watch(job, self.owner, work, log)
            with watch.stop_requests():
                ended = watch.run()
        printed = job.log_path.read_text(encoding="utf-8", errors="replace")
        diagnosis = supervise.verdict(job, ended, work)
        if combined is None:
            return Tried(diagnosis, ended, printed, vmfb, (ENTRY,), {}, True)
        blamed, says_all = {}, True
        # The output before a crash or a limit is not the cause of the failure.
        if diagnosis and diagnosis.status in ("error", "unsupported") and ended.returncode > 0:
            said, says_all = errors(printed, combined, source)
            found = {number: diagnose(ended.returncode, text) for number, text in said.items()}
            # Memory that several needed together says nothing about one of them.
            blamed = {n: (what, said[n]) for n, what in found.items() if what.status != "oom"}
        if diagnosis:
            detail = diagnosis.detail.partition(f" [{source.name}:")[0]
            diagnosis = dataclasses.replace(diagnosis, detail=detail)
        functions = tuple(combined.symbol(number) for number in range(count))
        return Tried(diagnosis, ended, printed, vmfb, functions, blamed, says_all)
