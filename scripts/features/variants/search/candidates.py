"""What is searched: the candidates and the budget, as the rule's command line gives them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec


class Candidate(msgspec.Struct, frozen=True):
    """One way to compile, as the rule's command line gives it.

    `frontend`, `opt_level`, `flags`: what it compiles and how. `options`: of the command that compiles.
    `program`: the file to compile; `export`: the status file of the stage that made it. `configured`:
    the target has it without tuning. `needs`, `avoid`: properties that the program must have all of,
    and none of. `hang`: why it is not run ("": it is run).
    """

    name: str
    frontend: str
    opt_level: str
    flags: tuple[str, ...]
    options: tuple[str, ...]
    program: str
    export: str
    configured: bool = False
    needs: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    hang: str = ""

    def with_spec(self, flag: str, spec: Path) -> Candidate:
        """The candidate that compiles the same with a tuning spec besides. `flag`: of iree-compile, which takes its path."""
        options = list(self.options)
        at = options.index("--flags") + 1
        given = [*json.loads(options[at]), f"{flag}={spec}"]
        options[at] = json.dumps(given, separators=(",", ":"))
        return msgspec.structs.replace(
            self, name=f"{self.name}-spec", options=tuple(options), configured=False
        )


class Search(msgspec.Struct, frozen=True):
    """What is searched: the candidates, in the order in which they are tried, and the seconds for all of
    them. `keep`: the share of the modules that stay when slow ones leave (race.Race). `properties`: the
    regular expressions of which one is found in a line of a program with that property. `specs`: the share of
    the seconds for tuning specs (0: none are searched for), which iree-compile takes by `spec_flag`."""

    candidates: tuple[Candidate, ...]
    properties: dict[str, tuple[str, ...]]
    budget_s: float
    keep: float
    specs: float = 0.0
    spec_flag: str = ""

    def why_not(self, of: Candidate, program: bytes) -> str:
        """Why a candidate does not apply to a program; "" if it does."""
        has = {
            name
            for name in (*of.needs, *of.avoid)
            if any(re.search(one.encode(), program) for one in self.properties[name])
        }
        if lacking := [name for name in of.needs if name not in has]:
            return f"the program has no {lacking[0]}"
        if avoided := [name for name in of.avoid if name in has]:
            return f"the program has {avoided[0]}"
        return ""

    def to_text(self) -> str:
        """One line of JSON. Equal searches give equal text."""
        return json.dumps(msgspec.to_builtins(self), separators=(",", ":"))


def of_text(text: str) -> Search:
    """The search that `Search.to_text` has written. Raises ValueError."""
    return msgspec.json.decode(text, type=Search)
