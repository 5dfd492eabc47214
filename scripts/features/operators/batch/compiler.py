"""Run iree-compile on one program, or on a module of several, with the limits of a supervisor."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.features.operators.batch import blame
from scripts.features.operators.batch.program import ENTRY, Combined, Program, combine
from scripts.iree import float64
from scripts.iree.backends import unused_plugins
from scripts.supervise import verdict
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

    def seconds(self, programs: int) -> float:
        """Return the limit in wall seconds for this many programs in one module."""
        return self.timeout_s + (programs - 1) * self.together_s

    def cpu_seconds(self, programs: int) -> float | None:
        """Return the limit in CPU seconds, or None for one program, which has no such limit."""
        return None if programs == 1 else max(TOGETHER_FLOOR_S, programs * self.together_s)


@dataclass(frozen=True)
class Compiler:
    """iree-compile with the flags of a target.

    `version`: part of the key of a cached result. `owner`: the process that must stay the parent of
    this one.
    """

    tool: str
    flags: tuple[str, ...]
    version: str
    limits: Limits
    owner: int = dataclasses.field(default_factory=os.getppid)

    def command(self, source: Path, vmfb: Path, *more: str) -> list[str]:
        return [self.tool, *self.flags, *more, str(source), "-o", str(vmfb)]

    def own_flags(self, program: Program) -> list[str]:
        """Return the flags that a program needs besides those of the target."""
        return float64.of_text(program.text, self.flags)

    def run(self, programs: Sequence[Program], work: Path) -> Tried:
        """Compile programs as one module, in the folder `work`.

        Raises job.Interrupted if the run is stopped or its parent has died, job.CannotStart if the
        compiler does not exist, and OSError if `work` cannot be written.
        """
        combined = combine(programs) if len(programs) > 1 else None
        text = programs[0].text if combined is None else combined.text
        own = [NO_SYMBOLS] if combined else self.own_flags(programs[0])
        more = [ONE_THREAD, *unused_plugins(self.flags, text), *own]
        source, vmfb = work / "module.mlir", work / "module.vmfb"
        if combined is None:
            source = programs[0].path
        else:
            source.write_text(text, encoding="utf-8")
        vmfb.unlink(missing_ok=True)
        job = Job(
            stage="compile",
            cell=programs[0].name,
            status_path=work / "status.json",
            log_path=work / "log.txt",
            command=self.command(source, vmfb, *more),
            timeout_s=self.limits.seconds(len(programs)),
            memory_mb=self.limits.memory_mb,
            artifacts=(vmfb,),
            cpu_s=self.limits.cpu_seconds(len(programs)),
        )
        with contextlib.closing(CappedLog(job.log_path)) as log:
            watch = Watch(job, self.owner, work, log)
            with watch.stop_requests():
                ended = watch.run()
        printed = job.log_path.read_text(encoding="utf-8", errors="replace")
        return Tried(verdict.of(job, ended, work), ended, printed, vmfb, source, combined)


@dataclass(frozen=True)
class Tried:
    """The result of a compilation.

    `diagnosis`: None if it succeeded. `printed`: the compiler's output. `source`: the file that was
    compiled. `combined`: the module of several programs; None for one program.
    """

    diagnosis: Diagnosis | None
    ended: Ended
    printed: str
    vmfb: Path
    source: Path
    combined: Combined | None

    def function(self, number: int) -> str:
        """Return the name of program `number` in the module."""
        return ENTRY if self.combined is None else self.combined.symbol(number)

    @property
    def of_all(self) -> Diagnosis:
        """The diagnosis for all programs, without the line, which belongs to a single program."""
        assert self.diagnosis is not None
        if self.combined is None:
            return self.diagnosis
        pointed_at = f" [{self.source.name}:"
        detail = self.diagnosis.detail.partition(pointed_at)[0]
        return dataclasses.replace(self.diagnosis, detail=detail)

    def blamed(self) -> dict[int, tuple[Diagnosis, str]]:
        """Return the diagnosis and output of single programs, by their number.

        Only an ordinary failure is assigned to programs. The output before a crash or a limit is
        not the cause of the failure.
        """
        failed = self.diagnosis is not None and self.diagnosis.status in ("error", "unsupported")
        if self.combined is None or not failed or self.ended.returncode <= 0:
            return {}
        said = blame.by_program(self.printed, self.combined, self.source)
        found = {number: (diagnose(self.ended.returncode, text), text) for number, text in said.items()}  # fmt: skip
        # Memory that several needed together says nothing about one of them.
        return {n: (what, text) for n, (what, text) in found.items() if what.status != "oom"}

    @property
    def says_all(self) -> bool:
        """Whether the output of the blamed programs is what they print if compiled alone.

        It may not be if there are errors that no program can be blamed for.
        """
        return self.combined is None or blame.is_complete(self.printed, self.combined, self.source)
