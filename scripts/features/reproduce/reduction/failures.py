"""The failures of a compilation that a reduction compares.

A part of a program has other shapes and names than the whole one, so these do not count. The words of the
message do: a reduction must not drift to another failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from scripts.iree.tools import Compiled
from scripts.supervise.diagnose import Diagnosis, diagnose, failure_signature

_LOCATED = re.compile(r"\.mlir:(\d+):\d+: ")
_ERROR = re.compile(r":\d+:\d+: error: ")


def diagnoses(compiled: Compiled) -> Iterator[Diagnosis]:
    """The failure of a compilation that did not reach its time limit, then the further errors of a compiler that did not crash.

    Dispatches are compiled in parallel, so which error is the first one may differ from run to run.
    """
    if not compiled.returncode:
        return
    yield diagnose(compiled.returncode, compiled.log)
    lines = compiled.log.splitlines()
    places = [place for place, line in enumerate(lines) if _ERROR.search(line)]
    for place in places[1:] if compiled.returncode > 0 else ():
        yield diagnose(compiled.returncode, "\n".join(lines[place:]))


def kind_of(failure: Diagnosis) -> tuple[str, str, str]:
    """What failures must have in common to be the same."""
    return failure.status, failure.reason, failure_signature(failure.detail)


def kinds(compiled: Compiled) -> list[tuple[str, str, str]]:
    """The kinds of the failures of a compilation, without those of one that reached its time limit."""
    return [kind_of(failure) for failure in diagnoses(compiled)]


def lines(log: str) -> set[int]:
    """The lines of the program that the diagnostics of a compiler name."""
    return {int(line) for line in _LOCATED.findall(log)}
