"""Choose which programs are compiled as one module.

If one program of a module fails, the compiler's work on the others is lost. So a module gets only as
many programs as are likely to compile together. The estimate is made by kind: programs of one kind
have the same operations and element types, and mostly fail together.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.features.operators.batch.program import Program

FAILURES = 0.5
"""Maximum expected number of failures in a module.

A module of n programs costs s + n m CPU seconds, and up to the same again if one fails. With s about
as large as m, as for small programs on llvm-cpu, the total changes little between 0.2 and 0.5.
"""
PRIOR_FAILED, PRIOR_ENDED = 0.04, 2.0
"""What is assumed of a kind before any of its programs has ended: 2 % fail."""

# Operations (`linalg.generic`), element types, and whether a tensor is empty (`x0x`). Other
# numbers, shapes and maps are left out.
_WORDS = re.compile(
    r"[a-z_]\w*(?:\.[a-z_]\w*)+|(?<=x)(?:bf16|f\d+\w*|[su]?i\d+|complex)\b|(?<=[<x])0x"
)


def kind(text: str) -> str:
    """Return the kind of a program: its operations, element types, and whether a tensor is empty."""
    return " ".join(sorted(set(_WORDS.findall(text))))


@dataclass
class _Seen:
    """How many programs of a kind have ended, and how many of them have failed."""

    ended: int = 0
    failed: int = 0

    @property
    def rate(self) -> float:
        """Estimated probability that the next one fails."""
        return (self.failed + PRIOR_FAILED) / (self.ended + PRIOR_ENDED)


class Queue:
    """Programs that wait to be compiled. `most`: maximum number of programs per module."""

    def __init__(self, programs: Sequence[Program], most: int) -> None:
        self._most = most
        self._kinds = {program.name: kind(program.text) for program in programs}
        self._seen = {kind: _Seen() for kind in self._kinds.values()}
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
            expected += self._seen[self._kinds[self._waiting[0].name]].rate
            if group and expected > FAILURES:
                break
            group.append(self._waiting.popleft())
        return group

    def ended(self, program: Program, failed: bool) -> None:
        """Note how a program has ended."""
        seen = self._seen[self._kinds[program.name]]
        seen.ended += 1
        seen.failed += failed

    def put_back(self, programs: Sequence[Program]) -> None:
        """Let programs that were not the cause of their module's failure wait again, before others."""
        for program in programs:
            self.ended(program, failed=False)
        self._waiting.extendleft(reversed(programs))

    def next_are(self, *groups: Sequence[Program]) -> None:
        """Let the next modules have these programs, in this order."""
        self._given += [list(group) for group in reversed(groups) if group]
