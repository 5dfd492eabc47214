"""Compile many small programs, several of them as one module, each with its own outcome.

Most of the time that iree-compile takes for a small program is needed only once per module. If a module does not
compile, the programs that its diagnostics name are compiled alone, and the rest of them again, with others that wait. If no
program is named (a crash, a hang, out of memory), the module is halved. So a failure is always that of a program alone.

If one program of a module fails, the compiler's work on the others is lost. So a module gets only as many programs as
are likely to compile together. The estimate is made by kind: programs of one kind have the same operations and element
types, and mostly fail together.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import shlex
import shutil
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from scripts.core import atomic
from scripts.iree import compile_cache, compile_options, tools
from scripts.iree.backends import compile_flags, unused_plugins
from scripts.iree.compile_cache import CachedCompilation, CompileCache
from scripts.iree.compile_options import TargetOptions
from scripts.supervise import outcome, supervise
from scripts.supervise.diagnose import Diagnosis
from scripts.supervise.job import Job
from scripts.supervise.outcome import Outcome, ProblemEnd, problem_of_cell
from scripts.supervise.watch import CappedLog, Ended, Watch
from scripts.tools.operators.batch import batch_stage
from scripts.tools.operators.batch.batch_program import (
    ENTRY,
    FILE,
    Combined,
    Program,
    blamed,
    combine,
)
from scripts.tools.operators.batch.batch_stage import Batch, Known

CACHE = Path("results/cache/compile")
"""The cache of a checkout that has no shared one."""
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


SHORTEST = "shortest"
SHORTEST_PROGRAM = """\
func.func @main(%arg0: tensor<1xf32>) -> tensor<1xf32> {
  %0 = arith.negf %arg0 : tensor<1xf32>
  return %0 : tensor<1xf32>
}
"""
"""A program with one dispatch of one element: its latency is the overhead of a call."""


@dataclass(frozen=True, kw_only=True)
class OperatorCompileRequest:
    """`compiler_python`: the interpreter of the environment that has iree-compile. `problems`: JSONL, those of the batch.
    `before`: outcomes.jsonl of the export."""

    target: TargetOptions
    compiler_python: str
    problems: Path
    before: Sequence[Path]


def work(request: OperatorCompileRequest, batch: Batch) -> supervise.Work:
    """Return the work of a job that compiles a batch."""
    python = Path(shutil.which(request.compiler_python) or request.compiler_python)
    environment, target = python.parent.parent, request.target
    # If the environment could not be made, there is no compiler, and the supervisor skips the batch.
    compiler = tools.program("iree-compile", environment) or environment / "bin/iree-compile"
    command = [
        str(compiler),
        *compile_flags(target.backend, target.arch, target.opt_level, target.flags),
    ]

    def do(job: Job, known: Known, batch: Batch) -> tuple[list[ProblemEnd], list[Ended]]:
        return compile_batch(dataclasses.replace(job, command=command, request=None), known, batch)

    return batch_stage.work(batch, do)


def compile_batch(job: Job, known: Known, batch: Batch) -> tuple[list[ProblemEnd], list[Ended]]:
    """Compile the programs of a batch, and the shortest one, with the command of a job: iree-compile and its flags."""
    folder = job.status_path.parent
    files = {}
    for name, (exported,) in ((name, before.values()) for name, before in known.items()):
        files[name] = Path(exported["folder"], FILE)
    if files:
        files[SHORTEST] = folder / "shortest.mlir"
        files[SHORTEST].write_text(SHORTEST_PROGRAM, encoding="utf-8")
    logs = folder / "logs"
    programs = [Program.read(name, path, logs / f"{name}.txt") for name, path in files.items()]
    lines: list[ProblemEnd] = []
    shared = compile_cache.of_environment()
    cache = CompileCache(shared.folder / "operators" if shared else CACHE, float("inf"))
    compiler = Path(job.command[0])
    identity = tools.identity(compiler) if compiler.is_file() else ""
    processes = Compilation(job, identity, cache, batch.again).run(programs, lines.append)
    if shared:
        compile_cache.trim(shared.folder, shared.most_bytes)
    by_name = {line.problem: line for line in lines}
    shortest = by_name.pop(SHORTEST).result if files else {}
    function = {key: shortest[key] for key in ("module", "function") if key in shortest}
    for name, line in by_name.items():
        if "module" in line.result:
            result = {**line.result, SHORTEST: function}
            by_name[name] = dataclasses.replace(line, result=result)
    return [*by_name.values()], processes


@dataclass(frozen=True)
class Entry:
    """The result of compiling a program, as the cache has it.

    `status`, `reason`, `detail` and `limit`: as in an outcome. `log`: the compiler's output for a failure, which names
    the file `source`. `code`: fingerprint of the code that it ended under. `module`: SHA-256 of the module, the key of its own
    entry in the cache, as it may hold many functions. `function`: the program's name in it. `seconds`: time of the compiler's
    process, divided by its number of programs `together`.
    """

    status: str
    seconds: float
    together: int
    reason: str = ""
    detail: str = ""
    limit: float | None = None
    log: str = ""
    source: str = ""
    code: str = ""
    module: str = ""
    function: str = ""


@dataclass(frozen=True)
class Tried:
    """The result of compiling some programs as one module. `diagnosis`: None if they compiled. `printed`: the compiler's
    output. `blamed`: the numbers of the programs of a module of several to which its errors belong."""

    diagnosis: Diagnosis | None
    ended: Ended
    printed: str
    blamed: Collection[int] = ()


@dataclass
class Compilation:
    """Compiles the programs of a batch.

    `job`: its command is iree-compile with the flags of a target, its limits are those of a program compiled alone, and
    its fingerprint is that of the code that decides how a program fails. The folder of its status gets the `modules`,
    and `work`. `compiler`: its identity (tools.identity), part of the key of a cached result. `again`: whether a program is
    compiled although its outcome is in the cache. `together`: maximum number of programs per module.
    """

    job: Job
    compiler: str
    cache: CompileCache
    again: Callable[[Outcome], bool] = lambda _: False
    together: int = TOGETHER

    def __post_init__(self) -> None:
        self._processes: list[Ended] = []
        self._limits = {"timeout": self.job.timeout_s, "oom": self.job.memory_mb}
        folder = self.job.status_path.parent
        self._modules, self._work = folder / "modules", folder / "work"
        self._vmfb = self._work / "module.vmfb"
        self._placed: set[str] = set()

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
            key = compile_cache.key(program.path, flags, self.compiler)
            entry = self._cached(key)
            if entry is not None and not self.again(self._outcome(program, entry)):
                done(self._line(program, entry, cached=True))
            else:
                missing.setdefault(key, []).append(program)
        keys = {same[0].name: key for key, same in missing.items()}
        for program, entry in self._entries([same[0] for same in missing.values()]):
            key = keys[program.name]
            if entry.reason not in outcome.PASSING:  # which says nothing about the program
                self.cache.put(key, CachedCompilation(dataclasses.asdict(entry)))
            for same in missing[key]:
                done(self._line(same, entry, cached=same is not program))
        return self._processes

    def _cached(self, key: str) -> Entry | None:
        """Return the cached result of a program, or None if it has to be compiled. A failure is valid only for the code that it
        failed under, and one at a limit only for that limit."""
        known, _ = self.cache.get(key, self._vmfb)
        try:
            entry = msgspec.convert(known.report, Entry) if known else None
        except msgspec.ValidationError:  # of another version
            return None
        if entry and entry.status == outcome.OK:
            return entry if self._is_placed(entry.module) else None
        if not entry or entry.code != self.job.fingerprint:
            return None
        return entry if self._limits.get(entry.status, entry.limit) == entry.limit else None

    def _is_placed(self, module: str) -> bool:
        """Whether a cached module is in the folder of the job now, as a whole."""
        if module not in self._placed and self.cache.get(module, self._module(module))[0]:
            self._placed.add(module)
        return module in self._placed

    def _module(self, name: str) -> Path:
        return self._modules / f"{name}.vmfb"

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
            [program] = programs
            job = self._job(programs, program.path, program.text, self._own_flags(program))
            ended, printed = self._watched(job)
            return Tried(supervise.verdict(job, ended, self._work), ended, printed)
        combined, source = combine(programs), self._work / "module.mlir"
        source.write_text(combined.text, encoding="utf-8")
        job = self._job(programs, source, combined.text, [NO_SYMBOLS])
        ended, printed = self._watched(job)
        diagnosis = supervise.verdict(job, ended, self._work)
        # The output before a crash or a limit is not the cause of the failure.
        if diagnosis and diagnosis.status in ("error", "unsupported") and ended.returncode > 0:
            return Tried(diagnosis, ended, printed, blamed(printed, combined, source))
        return Tried(diagnosis, ended, printed)

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
        if tried.diagnosis is None:
            module = hashlib.sha256(self._vmfb.read_bytes()).hexdigest()
            self.cache.put(module, CachedCompilation(), self._vmfb)
            atomic.move(self._vmfb, self._module(module))
            for number, program in enumerate(group):
                function = ENTRY if count == 1 else Combined.symbol(number)
                yield program, dataclasses.replace(entry, module=module, function=function)
        elif count == 1 or tried.diagnosis.reason in OF_NO_PROGRAM:
            for program in group:
                yield (
                    program,
                    dataclasses.replace(
                        entry,
                        **dataclasses.asdict(tried.diagnosis),
                        limit=self._limits.get(tried.diagnosis.status),
                        log=tried.printed[:LOG_CHARS],
                        source=str(program.path),
                    ),
                )
        elif tried.blamed:
            queue.next_are(*([group[number]] for number in sorted(tried.blamed)))
            queue.put_back([p for number, p in enumerate(group) if number not in tried.blamed])
        else:
            queue.next_are(group[: count // 2], group[count // 2 :])

    def _line(self, program: Program, entry: Entry, cached: bool) -> ProblemEnd:
        """Return the end of a program from an entry, and write the program's log."""
        log = entry.log.replace(entry.source, str(program.path)) if entry.source else ""
        program.log.parent.mkdir(parents=True, exist_ok=True)
        program.log.write_text(log, encoding="utf-8")
        result: dict[str, Any] = {
            "seconds": entry.seconds,
            "together": entry.together,
            "cached": cached,
        }
        if entry.module:
            module = self._module(entry.module)
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
