"""A part of a page of the documentation that a command makes from data, between two lines that mark it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.lib.core import atomic, checkout, exits

END = "<!-- End of what it makes. -->\n"


@dataclass(frozen=True)
class MadePart:
    """`script`: the command, by its name in scripts/. `source`: the file with the data. `page`: in docs/."""

    script: str
    source: str
    page: str

    @property
    def begin(self) -> str:
        """The line that marks the beginning."""
        return f"<!-- Made by `python -m scripts.{self.script}` from {self.source}. -->\n"

    def within(self, text: str, made: str) -> str:
        """Return a page with `made` as this part. Raises ValueError if it lacks the two lines."""
        before, found, rest = text.partition(self.begin)
        _, ended, after = rest.partition(END)
        if not (found and ended):
            raise ValueError(f"the lines {self.begin.strip()!r} and {END.strip()!r} are missing")
        return f"{before}{self.begin}\n{made}\n{END}{after}"

    def command(self, description: str | None, tables: Callable[[], str]) -> None:
        """The whole command: write what `tables` returns into the page. Exits if that cannot be done."""
        parser = argparse.ArgumentParser(
            prog=f"python -m scripts.{self.script}", description=description
        )
        parser.add_argument(
            "page", nargs="?", type=Path, default=checkout.ROOT / "docs" / self.page
        )
        page = parser.parse_args().page
        try:
            atomic.write_text(page, self.within(page.read_text(encoding="utf-8"), tables()))
        except (OSError, ValueError) as error:
            exits.fail(f"{page}: {error}")
