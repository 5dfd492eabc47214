"""Text of others on a terminal, such as names, logs and errors in results: control characters are shown and not obeyed."""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tab and newline, and those that change the direction of text."""


def text(value: str) -> str:
    """Return text in which each control character is written as in Python: `\\x1b`."""
    return _OBEYED.sub(lambda at: ascii(at[0])[1:-1], value)


class Stream:
    """A stream of text that writes control characters as `text` does. `raw`: the one that obeys them."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, value: str) -> int:
        """Write text. Returns the number of characters of `value`."""
        self.raw.write(text(value))
        return len(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def protect() -> None:
    """Make standard output and standard error of this process streams of this kind."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, Stream):
            setattr(sys, name, Stream(stream))
