"""Write Markdown in which no part of a value is read as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from scripts.core.commands import shown

CODE_CHARS = 160
"""Maximum length of a code span in a table."""


def text(value: object) -> str:
    """Return a value escaped, so that no part of it ends a cell, is read as markup or is a control character."""
    return re.sub(r"([\\`*<>\[\]|~])", r"\\\1", shown(str(value))).replace("\n", "<br>")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Return a table. The cells are Markdown; the columns `right` are aligned to the right."""
    numbers = set(right)
    under = ["--:" if place in numbers else "---" for place in range(len(head))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, under, *rows))


def bullets(lines: Iterable[object]) -> str:
    """Return lines of text as a list."""
    return "".join(f"- {text(line)}\n" for line in lines)


def code(value: str) -> str:
    """Return one line as a code span in a table, cut at CODE_CHARS characters."""
    line = shown(" ".join(value.split()))
    line = line if len(line) <= CODE_CHARS else line[: CODE_CHARS - 1] + "…"
    # A code span ends with the same number of backticks as at its start. A pipe ends the cell, even
    # in a code span. A backslash before the pipe would be combined with the one that escapes it.
    line = re.sub(r"(?<!\\)((?:\\\\)*\\)\|", r"\1 |", line)
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return fence + pad + line.replace("|", "\\|") + pad + fence
