"""Compile many small programs, several of them as one module, each with its own outcome.

Most of the time that iree-compile takes for a small program is needed only once per module. If a module does not
compile, the programs that its diagnostics name have failed. The others are compiled again, with others that wait. If no
program is named (a crash, a hang, out of memory), the module is halved.

If one program of a module fails, the compiler's work on the others is lost. So a module gets only as many programs as
are likely to compile together. The estimate is made by kind: programs of one kind have the same operations and element
types, and mostly fail together.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.features.operators.batch import cache
from scripts.features.operators.batch.batch_program import ENTRY, Combined, Program, combine, errors
from scripts.features.operators.batch.cache import Cache, Entry
from scripts.iree import compile_options
from scripts.iree.backends import unused_plugins
from scripts.supervise import outcome, supervise
from scripts.supervise.diagnose import Diagnosis, diagnose
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome, ProblemEnd, problem_of_cell
from scripts.supervise.watch import CappedLog, Ended, Watch

TOGETHER = 32
"""Maximum number of programs per module. With 64, the time per program is hardly lower, and a failure
costs twice as much."""
FAILURES = 0.5
"""Maximum expected number of failures in a module.

A module of n programs costs s + n m CPU seconds, and up to the same again if one fails. With s about
as large as m, as for small programs on llvm-cpu, the total changes little between 0.2 and 0.5.
"""
PRIOR_FAILED, PRIOR_ENDED = 0.04, 2.0
"""What is assumed of a kind before any of its programs has ended: 2 % fail."""
OF_NO_PROGRAM = (outcome.DISK_FULL, outcome.EXHAUSTED, "bad-flag", "unknown-target")
"""Reasons of failures that concern all programs."""
LOG_CHARS = 16_000
"""Maximum length of the stored compiler output of a failed program."""
TOGETHER_S, TOGETHER_FLOOR_S = 3.0, 10.0
"""CPU seconds per program of a module of several, and at least. CPU time depends little on other work on the machine.
Convolutions in f16 take 1 to 2 s. A module that takes longer is split, and none of its programs fails because of that."""
ONE_THREAD = "--mlir-disable-threading"
"""A batch takes one core. Several batches use several cores better than the threads of one."""
NO_SYMBOLS = "--disable-symbolication"
"""The stack of a crash that concerns several programs is not shown, and looking up its symbols takes
as long as a small program."""

# Operations (`linalg.generic`), element types, and whether a tensor is empty (`x0x`). Other
# numbers, shapes and maps are left out.
_WORDS = re.compile(
    r"[a-z_]\w*(?:\.[a-z_]\w*)+|(?<=x)(?:bf16|f\d+\w*|[su]?i\d+|complex)\b|(?<=[<x])0x"
)


@dataclass(frozen=True)
class Tried:
    """The result of compiling some programs as one module.

    `diagnosis`: of all of them, without the line, which belongs to a single program; None if they compiled. `printed`:
    the compiler's output. `blamed`: the diagnosis and output of the programs of a module that have failed, by their
    number. `says_all`: whether that is what they print if compiled alone; it may not be if there are errors that no
    program can be blamed for.
    """

    diagnosis: Diagnosis | None
    ended: Ended
    printed: str
    blamed: Mapping[int, tuple[Diagnosis, str]]
    says_all: bool = True


@dataclass
class Compilation:
    """Compiles the programs of a batch.

    `job`: its command is iree-compile with the flags of a target, its limits are those of a program compiled alone, and
    its fingerprint is that of the code that decides how a program fails. The folder of its status gets the `modules`,
    and `work`. `compiler`: its identity (tools.identity), part of the key of a cached result. `cache`: a folder that runs may share.
    `again`: whether a program is compiled although its outcome is in the cache. `together`: maximum number of programs
    per module.
    """

    job: Job
    compiler: str
    cache: Path
    again: Callable[[Outcome], bool] = lambda _: False
    together: int = TOGETHER

    def __post_init__(self) -> None:
        self._processes: list[Ended] = []
        self._cache = Cache(self.cache)
        self._limits = {"timeout": self.job.timeout_s, "oom": self.job.memory_mb}
        folder = self.job.status_path.parent
        self._modules, self._work = folder / "modules", folder / "work"
        self._vmfb = self._work / "module.vmfb"

    def run(self, programs: Sequence[Program], done: Callable[[ProblemEnd], None]) -> list[Ended]:
        """Compile the programs that are not in the cache, and call `done` with the end of each, in
        the order in which they end. Return the outcome of each process of the compiler.

        The result of a program has `seconds`: time of the compiler's process, divided by its number
        of programs `together`; `cached`: whether it was compiled before, for this program or an
        equal one; and if it is ok `module`, `function` in it, and `vmfb_bytes`. Raises the
        exceptions of `compile`; the programs that have ended are in the cache.
        """
        self._work.mkdir(parents=True, exist_ok=True)
        missing: dict[str, list[Program]] = {}
        for program in programs:
            flags = (*self.job.command[1:], *self._own_flags(program))
            key = cache.key(program.text, flags, self.compiler)
            entry = self._cache.get(key, self.job.fingerprint, self._limits)
            if entry is not None and not self.again(self._outcome(program, entry)):
                done(self._line(program, entry, cached=True))
            else:
                missing.setdefault(key, []).append(program)
        keys = {same[0].name: key for key, same in missing.items()}
        for program, entry in self._entries([same[0] for same in missing.values()]):
            key = keys[program.name]
            self._cache.put(key, entry)
            for same in missing[key]:
                done(self._line(same, entry, cached=same is not program))
        return self._processes

    def _entries(self, programs: Sequence[Program]) -> Iterator[tuple[Program, Entry]]:
        """Compile programs that are all different, and yield each with its result."""
        queue = Queue(programs, self.together)
        while group := queue.take():
            tried = self.compile(group)
            self._processes.append(tried.ended)
            for program, entry in self._ended(group, tried, queue):
                is_own = entry.status != outcome.OK and entry.reason not in OF_NO_PROGRAM
                queue.ended(program, failed=is_own)
                yield program, entry

    def compile(self, programs: Sequence[Program]) -> Tried:
        """Compile programs as one module. Raises job.Interrupted if the run is stopped or its parent has died,
        job.CannotStart if the compiler does not exist, and OSError if the folder cannot be written."""
        if len(programs) == 1:
            job = self._job(
                programs, programs[0].path, programs[0].text, self._own_flags(programs[0])
            )
            ended, printed = self._watched(job)
            return Tried(supervise.verdict(job, ended, self._work), ended, printed, {})
        combined, source = combine(programs), self._work / "module.mlir"
        source.write_text(combined.text, encoding="utf-8")
        job = self._job(programs, source, combined.text, [NO_SYMBOLS])
        ended, printed = self._watched(job)
        diagnosis = supervise.verdict(job, ended, self._work)
        blamed, says_all = {}, True
        # The output before a crash or a limit is not the cause of the failure.
        if diagnosis and diagnosis.status in ("error", "unsupported") and ended.returncode > 0:
            said, says_all = errors(printed, combined, source)
            diagnoses = {number: diagnose(ended.returncode, text) for number, text in said.items()}
            # Memory that several needed together says nothing about one of them.
            blamed = {n: (what, said[n]) for n, what in diagnoses.items() if what.status != "oom"}
        if diagnosis:
            detail = diagnosis.detail.partition(f" [{source.name}:")[0]
            diagnosis = dataclasses.replace(diagnosis, detail=detail)
        return Tried(diagnosis, ended, printed, blamed, says_all)

    def _job(
        self, programs: Sequence[Program], source: Path, text: str, flags: Sequence[str]
    ) -> Job:
        """The job of a process of the compiler."""
        more = [ONE_THREAD, *unused_plugins(self.job.command[1:], text), *flags]
        others = (len(programs) - 1) * TOGETHER_S
        return dataclasses.replace(
            self.job,
            cell=programs[0].name,
            status_path=self._work / outcome.STATUS,
            log_path=self._work / "log.txt",
            command=self._command(source, self._vmfb, *more),
            timeout_s=self.job.timeout_s + others,
            artifacts=(self._vmfb,),
            cpu_s=max(TOGETHER_FLOOR_S, others + TOGETHER_S) if others else None,
        )

    def _watched(self, job: Job) -> tuple[Ended, str]:
        """Run a process of the compiler; return the outcome, and its output."""
        self._vmfb.unlink(missing_ok=True)
        with contextlib.closing(CappedLog(job.log_path)) as log:
            watch = Watch(job, job.owner or os.getppid(), self._work, log)
            with watch.stop_requests():
                ended = watch.run()
        return ended, job.log_path.read_text(encoding="utf-8", errors="replace")

    def _command(self, source: Path, vmfb: Path, *more: str) -> list[str]:
        return [*self.job.command, *more, str(source), "-o", str(vmfb)]

    def _own_flags(self, program: Program) -> list[str]:
        """The flags that a program needs besides those of the target."""
        return compile_options.flags_keeping_float64(program.text, self.job.command[1:])

    def _ended(
        self, group: Sequence[Program], tried: Tried, queue: Queue
    ) -> Iterator[tuple[Program, Entry]]:
        """Yield the programs of a module that have ended; the others wait in `queue` again."""
        count = len(group)
        entry = Entry(
            outcome.OK, round(tried.ended.seconds / count, 4), count, code=self.job.fingerprint
        )

        def failed(program: Program, diagnosis: Diagnosis, said: str) -> tuple[Program, Entry]:
            return program, dataclasses.replace(
                entry,
                **dataclasses.asdict(diagnosis),
                limit=self._limits.get(diagnosis.status),
                log=said[:LOG_CHARS],
                source=str(program.path),
            )

        if tried.diagnosis is None:
            module, recorded = self._cache.put_module(self._vmfb)
            for number, program in enumerate(group):
                function = ENTRY if count == 1 else Combined.symbol(number)
                yield (
                    program,
                    dataclasses.replace(entry, module=module, function=function, made=recorded),
                )
        elif count == 1 or tried.diagnosis.reason in OF_NO_PROGRAM:
            for program in group:
                yield failed(program, tried.diagnosis, tried.printed)
        elif tried.blamed:
            if tried.says_all:
                for number, (diagnosis, said) in tried.blamed.items():
                    yield failed(group[number], diagnosis, said)
            else:
                queue.next_are(*([group[number]] for number in tried.blamed))
            queue.put_back([p for number, p in enumerate(group) if number not in tried.blamed])
        else:
            queue.next_are(group[: count // 2], group[count // 2 :])

    def _line(self, program: Program, entry: Entry, cached: bool) -> ProblemEnd:
        """Return the end of a program from an entry, and write the program's log."""
        entry = entry.of_file(program.path)
        program.log.parent.mkdir(parents=True, exist_ok=True)
        program.log.write_text(entry.log, encoding="utf-8")
        result: dict[str, Any] = {
            "seconds": entry.seconds,
            "together": entry.together,
            "cached": cached,
        }
        if entry.module:
            module = self._cache.place(entry.module, self._modules)
            result |= {"module": str(module), "function": entry.function}
            result["vmfb_bytes"] = module.stat().st_size
        return ProblemEnd(program.name, self._outcome(program, entry), entry.seconds, result)

    def _outcome(self, program: Program, entry: Entry) -> Outcome:
        alone = self._command(program.path, Path(os.devnull), *self._own_flags(program))
        return Outcome(
            status=entry.status,
            stage=self.job.stage,
            cell=problem_of_cell(self.job, program.name),
            reason=entry.reason,
            detail=entry.detail,
            log=str(program.log),
            command=shlex.join(alone),
            fingerprint=entry.code,
            limit=entry.limit,
        )


def kind(text: str) -> str:
    """Return the kind of a program: its operations, element types, and whether a tensor is empty."""
    return " ".join(sorted(set(_WORDS.findall(text))))


class Queue:
    """Programs that wait to be compiled. `most`: maximum number of programs per module."""

    def __init__(self, programs: Sequence[Program], most: int) -> None:
        self._most = most
        self._kinds = {program.name: kind(program.text) for program in programs}
        self._ended = dict.fromkeys(self._kinds.values(), PRIOR_ENDED)
        self._failed = dict.fromkeys(self._kinds.values(), PRIOR_FAILED)
        fitting = [program for program in programs if program.fits_in_a_module]
        self._waiting = deque(sorted(fitting, key=lambda p: self._kinds[p.name]))
        self._given = [[program] for program in programs if not program.fits_in_a_module]

    def take(self) -> list[Program]:
        """Return the programs of the next module; [] if none is left."""
        if self._given:
            return self._given.pop()
        group: list[Program] = []
        expected = 0.0
        while self._waiting and len(group) < self._most:
            of_kind = self._kinds[self._waiting[0].name]
            expected += self._failed[of_kind] / self._ended[of_kind]
            if group and expected > FAILURES:
                break
            group.append(self._waiting.popleft())
        return group

    def ended(self, program: Program, failed: bool) -> None:
        """Note the outcome of a program."""
        self._ended[self._kinds[program.name]] += 1
        self._failed[self._kinds[program.name]] += failed

    def put_back(self, programs: Sequence[Program]) -> None:
        """Let programs that were not the cause of their module's failure wait again, before others."""
        for program in programs:
            self.ended(program, failed=False)
        self._waiting.extendleft(reversed(programs))

    def next_are(self, *groups: Sequence[Program]) -> None:
        """Let the next modules have these programs, in this order."""
        self._given += [list(group) for group in reversed(groups) if group]
