"""Assign the diagnostics of a compiler to the programs of a module.

A diagnostic points at a line of the module, which belongs to one program. A diagnostic without a
line may still name a function, because the compiler names its products after functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.features.operators.batch.program import ENTRY, Combined

ERROR = "error"

# "<file>:<line>:<column>: error: …", "<unknown>:0: error: …" or "error: …" (mlir::SourceMgrDiagnosticHandler).
_HEAD = re.compile(
    r"^(?:(?P<file>\S+?):(?P<line>\d+):(?:\d+:)? )?(?P<severity>error|warning|note|remark): "
)
_NUMBER = re.compile(r"(?<![\w.])program_(?P<number>\d+)(?!\d)")


@dataclass
class _Part:
    """The error of a diagnostic, or one of its notes, with the lines below it."""

    severity: str
    file: str
    line: int
    lines: list[str]


def by_program(log: str, combined: Combined, module: Path) -> dict[int, str]:
    """Return the errors in the compiler's output for `module`, by the number of their program.

    Each text is what the compiler prints if that program is compiled alone: it has the program's
    own file, lines of that file, and the name of the entry. An error that cannot be assigned to a
    program is left out (see `is_complete`).
    """
    found: dict[int, list[str]] = {}
    for diagnostic in _diagnostics(log):
        number = _owner(diagnostic, combined, str(module))
        if number is not None:
            lines = [line for part in diagnostic for line in part.lines]
            found.setdefault(number, []).extend(lines)
    return {
        number: _as_alone("\n".join(lines) + "\n", number, combined, str(module))
        for number, lines in found.items()
    }


def is_complete(log: str, combined: Combined, module: Path) -> bool:
    """Return whether each error in the compiler's output can be assigned to a program."""
    return all(_owner(one, combined, str(module)) is not None for one in _diagnostics(log))


def _diagnostics(log: str) -> Iterator[list[_Part]]:
    """Yield each error with the notes that follow it. Warnings and their notes are left out."""
    diagnostic: list[_Part] = []
    inside = False
    for line in log.splitlines():
        if head := _HEAD.match(line):
            severity = head["severity"]
            if severity == ERROR and diagnostic:
                yield diagnostic
                diagnostic = []
            inside = severity == ERROR or (severity == "note" and inside)
            if inside:
                place = (head["file"] or "", int(head["line"] or 0))
                diagnostic.append(_Part(severity, *place, [line]))
        elif inside:
            diagnostic[-1].lines.append(line)
    if diagnostic:
        yield diagnostic


def _owner(diagnostic: list[_Part], combined: Combined, module: str) -> int | None:
    """Return the number of the program that an error belongs to, or None.

    It is the program that the error points at, else the only one that it names, else the only one
    that its notes point at or name.
    """
    error, *notes = diagnostic
    if error.file == module and (number := combined.owner(error.line)) is not None:
        return number
    for parts in ([error], notes):
        named = {number for part in parts for number in _named(part, combined, module)}
        if len(named) == 1:
            return named.pop()
    return None


def _named(part: _Part, combined: Combined, module: str) -> set[int]:
    numbers = {int(n["number"]) for line in part.lines for n in _NUMBER.finditer(line)}
    if part.file == module and (number := combined.owner(part.line)) is not None:
        numbers.add(number)
    return {number for number in numbers if number < len(combined.programs)}


def _as_alone(text: str, number: int, combined: Combined, module: str) -> str:
    """Return diagnostics with the lines and the entry name of a program compiled alone."""

    def place(found: re.Match[str]) -> str:
        line = int(found["line"])
        owner = combined.owner(line)
        if owner is None:
            return found[0]
        return f"{combined.programs[owner].path}:{line - combined.starts[owner] + 1}"

    text = re.sub(rf"{re.escape(module)}:(?P<line>\d+)", place, text)
    return re.sub(rf"(?<![\w.]){combined.symbol(number)}(?!\d)", ENTRY, text)
