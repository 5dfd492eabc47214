"""Small programs, and modules that contain several of them as functions.

A program is a text file that `normalise` writes: functions without a surrounding module, whose
entry is `@main`. A module of several programs is the concatenation of their texts, with a different
name for each entry. So each line of the module belongs to one program.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.iree import float64

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


@dataclass(frozen=True)
class Program:
    """A program in a file.

    `name`: the cell of its outcome, unique in a batch. `log`: path for the compiler's output.
    `text`: the content of the file at `path`.
    """

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
        return is_small and not has_resources and not float64.in_interface(self.text)


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

    def rename(found: re.Match[str]) -> str:
        return found[0] if found["rest"] is None else f"@{entry}{found['rest']}"

    return _SYMBOL.sub(rename, text.removesuffix("\n") + "\n")
