"""Small programs, modules that contain several of them as functions, and whose error is whose.

A program is a text file that `normalise` writes: functions without a surrounding module, whose entry is `@main`. A
module of several programs is the concatenation of their texts, with a different name for each entry. So each line of
the module belongs to one program, and so does a diagnostic of the compiler that points at a line. A diagnostic without
a line may still name a function, because the compiler names its products after functions.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.iree import compile_options

ENTRY = "main"
"""The entry of a single program. Its other functions are `main.1`, `main.2` and so on."""
FILE = "program.mlir"
"""The file of a program, in a folder with the name of its problem."""
RESOURCES = "{-#"
"""Start of the resources of an MLIR file, which must be at the end of the file."""
RESOURCE = "dense_resource<"
"""Start of a constant whose value is a resource."""
MODULE_CHARS = 1_000_000
"""Maximum length of a program that is compiled together with others."""

# Also matches strings, so that text in a string is not taken for a symbol.
_SYMBOL = re.compile(rf'"[^"\\]*(?:\\.[^"\\]*)*"|@{ENTRY}(?P<rest>(?:\.\d+)?)(?![\w$.-])')
# "<file>:<line>:<column>: error: …", "<unknown>:0: error: …" or "error: …" (mlir::SourceMgrDiagnosticHandler).
_HEAD = re.compile(
    r"^(?:(?P<file>\S+?):(?P<line>\d+):(?:\d+:)? )?(?P<severity>error|warning|note|remark): "
)
_NUMBER = re.compile(r"(?<![\w.])program_(\d+)(?!\d)")


@dataclass(frozen=True)
class Program:
    """A program in a file. `name`: that of its problem, unique in a batch. `log`: path for the
    compiler's output. `text`: the content of the file at `path`."""

    name: str
    path: Path
    log: Path
    text: str

    @classmethod
    def read(cls, name: str, path: Path, log: Path) -> Program:
        return cls(name, path, log, path.read_text(encoding="utf-8"))

    @property
    def fits_in_a_module(self) -> bool:
        """Whether it can be compiled together with other programs.

        One that refers to a resource cannot: if the file has no such resource, the error has no
        line. One with large constants can, but all constants of a module are in memory together.
        One with float64 in its interface needs a flag that would change the others.
        """
        is_small = len(self.text) <= MODULE_CHARS
        has_resources = RESOURCES in self.text or RESOURCE in self.text
        return (
            is_small and not has_resources and not compile_options.has_float64_interface(self.text)
        )


@dataclass(frozen=True)
class Combined:
    """Several programs as one module. `starts`: the first line of each in `text`, from 1."""

    programs: tuple[Program, ...]
    text: str
    starts: tuple[int, ...]

    @staticmethod
    def symbol(number: int) -> str:
        """Return the name of the entry of program `number` in the module."""
        return f"program_{number}"

    def owner(self, line: int) -> int | None:
        """Return the program that a line belongs to, or None if the module has no such line."""
        if not 0 < line <= self.text.count("\n"):
            return None
        return bisect.bisect_right(self.starts, line) - 1


def combine(programs: Sequence[Program]) -> Combined:
    """Combine programs into one module, in order."""
    texts, starts, line = [], [], 1
    for number, program in enumerate(programs):
        texts.append(_renamed(program.text, Combined.symbol(number)))
        starts.append(line)
        line += texts[-1].count("\n")
    return Combined(tuple(programs), "".join(texts), tuple(starts))


def _renamed(text: str, entry: str) -> str:
    """Return a program with another name for its entry, ending with a line feed."""

    def rename(match: re.Match[str]) -> str:
        return match[0] if match["rest"] is None else f"@{entry}{match['rest']}"

    return _SYMBOL.sub(rename, text.removesuffix("\n") + "\n")


def blamed(log: str, combined: Combined, module: Path) -> set[int]:
    """Return the numbers of the programs that errors in the compiler's output for `module` belong to."""
    owners = (_owner(error, notes, combined, str(module)) for error, *notes in _diagnostics(log))
    return {owner for owner in owners if owner is not None}


@dataclass
class _Part:
    """The error of a diagnostic, or one of its notes, with the lines below it."""

    file: str
    line: int
    text: str


def _diagnostics(log: str) -> Iterator[list[_Part]]:
    """Yield each error with the notes that follow it. Warnings and their notes are left out."""
    diagnostic: list[_Part] = []
    inside = False
    for line in log.splitlines():
        if head := _HEAD.match(line):
            is_error = head["severity"] == "error"
            if is_error and diagnostic:
                yield diagnostic
                diagnostic = []
            inside = is_error or (head["severity"] == "note" and inside)
            if inside:
                diagnostic.append(_Part(head["file"] or "", int(head["line"] or 0), line))
        elif inside:
            diagnostic[-1].text += f"\n{line}"
    if diagnostic:
        yield diagnostic


def _owner(error: _Part, notes: list[_Part], combined: Combined, module: str) -> int | None:
    """Return the number of the program that an error belongs to, or None. It is the program that the error points at,
    else the only one that it names, else the only one that its notes point at or name."""
    if error.file == module and (number := combined.owner(error.line)) is not None:
        return number
    for parts in ([error], notes):
        named = {int(number) for part in parts for number in _NUMBER.findall(part.text)}
        pointed_at = {combined.owner(part.line) for part in parts if part.file == module}
        numbers = (named | pointed_at) & set(range(len(combined.programs)))
        if len(numbers) == 1:
            return numbers.pop()
    return None
