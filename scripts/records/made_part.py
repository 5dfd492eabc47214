"""A part of a page of the documentation that a command makes from data, between two lines that mark it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

END = "<!-- End of what it makes. -->\n"


@dataclass(frozen=True)
class MadePart:
    """`source`: the file with the data. `page`: in docs/. `made`: returns the part."""

    source: str
    page: str
    made: Callable[[], str]

    @property
    def begin(self) -> str:
        """The line that marks the beginning."""
        return f"<!-- Made by `vmfbench docs` from {self.source}. -->\n"

    def within(self, text: str) -> str:
        """Return a page with this part made anew. Raises ValueError if it lacks the two lines."""
        before, begin, rest = text.partition(self.begin)
        _, end, after = rest.partition(END)
        if not (begin and end):
            raise ValueError(f"the lines {self.begin.strip()!r} and {END.strip()!r} are missing")
        return f"{before}{begin}\n{self.made()}\n{END}{after}"
