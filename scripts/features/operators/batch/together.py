"""Compile many small programs, several of them as one module, each with its own outcome.

Most of the time that iree-compile takes for a small program is needed only once per module. If a
module does not compile, the programs that its diagnostics name have failed. The others are compiled
again, with others that wait. If no program is named (a crash, a hang, out of memory), the module is
halved.

If one program of a module fails, the compiler's work on the others is lost. So a module gets only as
many programs as are likely to compile together. The estimate is made by kind: programs of one kind
have the same operations and element types, and mostly fail together.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.features.operators.batch import cache
from scripts.features.operators.batch.batch_compiler import Compiler, Tried
from scripts.features.operators.batch.batch_program import Program
from scripts.features.operators.batch.cache import Cache, Entry
from scripts.supervise import outcome
from scripts.supervise.diagnose import Diagnosis
from scripts.supervise.outcome import Outcome
from scripts.supervise.outcomes import Line
from scripts.supervise.watch import Ended

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
OF_NO_PROGRAM = (outcome.DISK_FULL, "bad-flag", "unknown-target")
"""Reasons of failures that concern all programs."""
LOG_CHARS = 16_000
"""Maximum length of the stored compiler output of a failed program."""

# Operations (`linalg.generic`), element types, and whether a tensor is empty (`x0x`). Other
# numbers, shapes and maps are left out.
_WORDS = re.compile(
    r"[a-z_]\w*(?:\.[a-z_]\w*)+|(?<=x)(?:bf16|f\d+\w*|[su]?i\d+|complex)\b|(?<=[<x])0x"
)


@dataclass
class Compilation:
    """Compiles the programs of a batch.

    `cache`: a folder that runs may share. `modules`: the folder of the modules of the outcomes.
    `work`: that of temporary files, used by this batch only. `code`: fingerprint of the code that
    decides how a program fails. `together`: maximum number of programs per module. `again`: whether
    a program is compiled although its outcome is in the cache.
    """

    compiler: Compiler
    cache: Path
    modules: Path
    work: Path
    code: str = ""
    together: int = TOGETHER
    again: Callable[[Outcome], bool] = lambda _: False

    def __post_init__(self) -> None:
        self._processes: list[Ended] = []
        self._cache = Cache(self.cache)
        limits = self.compiler.limits
        self._limits = {"timeout": limits.timeout_s, "oom": limits.memory_mb}

    def run(self, programs: Sequence[Program], done: Callable[[Line], None]) -> list[Ended]:
        """Compile the programs that are not in the cache, and call `done` with the end of each, in
        the order in which they end. Return how each process of the compiler ended.

        The result of a program has `seconds`: time of the compiler's process, divided by its number
        of programs `together`; `cached`: whether it was compiled before, for this program or an
        equal one; and if it is ok `module`, `function` in it, and `vmfb_bytes`. Raises the
        exceptions of Compiler.run; the programs that have ended are in the cache.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        missing: dict[str, list[Program]] = {}
        for program in programs:
            flags = (*self.compiler.flags, *self.compiler.own_flags(program))
            key = cache.key(program.text, flags, self.compiler.version)
            entry = self._cache.get(key, self.code, self._limits)
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
            tried = self.compiler.run(group, self.work)
            self._processes.append(tried.ended)
            for program, entry in self._ended(group, tried, queue):
                is_own = entry.status != outcome.OK and entry.reason not in OF_NO_PROGRAM
                queue.ended(program, failed=is_own)
                yield program, entry

    def _ended(
        self, group: Sequence[Program], tried: Tried, queue: Queue
    ) -> Iterator[tuple[Program, Entry]]:
        """Yield the programs of a module that have ended; the others wait in `queue` again."""
        if tried.diagnosis is None:
            module, made = self._cache.put_module(tried.vmfb)
            for program, function in zip(group, tried.functions, strict=True):
                yield program, self._entry(tried, module=module, function=function, made=made)
        elif len(group) == 1 or tried.diagnosis.reason in OF_NO_PROGRAM:
            for program in group:
                yield program, self._failed(program, tried, tried.diagnosis, tried.printed)
        elif tried.blamed:
            if tried.says_all:
                for number, (diagnosis, said) in tried.blamed.items():
                    yield group[number], self._failed(group[number], tried, diagnosis, said)
            else:
                queue.next_are(*([group[number]] for number in tried.blamed))
            queue.put_back([p for number, p in enumerate(group) if number not in tried.blamed])
        else:
            middle = len(group) // 2
            queue.next_are(group[:middle], group[middle:])

    def _failed(self, program: Program, tried: Tried, diagnosis: Diagnosis, said: str) -> Entry:
        return self._entry(
            tried,
            **dataclasses.asdict(diagnosis),
            limit=self._limits.get(diagnosis.status),
            log=said[:LOG_CHARS],
            source=str(program.path),
        )

    def _entry(self, tried: Tried, status: str = outcome.OK, **values: Any) -> Entry:
        count = len(tried.functions)
        seconds = round(tried.ended.seconds / count, 4)
        return Entry(status, seconds, count, code=self.code, **values)

    def _line(self, program: Program, entry: Entry, cached: bool) -> Line:
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
            module = self._cache.place(entry.module, self.modules)
            result |= {"module": str(module), "function": entry.function}
            result["vmfb_bytes"] = module.stat().st_size
        return Line(program.name, self._outcome(program, entry), entry.seconds, result)

    def _outcome(self, program: Program, entry: Entry) -> Outcome:
        own = self.compiler.own_flags(program)
        alone = self.compiler.command(program.path, program.log.with_suffix(".vmfb"), *own)
        return Outcome(
            status=entry.status,
            stage="compile",
            cell=program.name,
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
        """Note how a program has ended."""
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
