"""Ways to compile a model for a target: what is asked for, the attempts of remedies and the candidates of tuning.

Rules give attempts and candidates to their jobs as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec


class Variant(msgspec.Struct, frozen=True):
    """The frontend of a program, and the opt level and flags with which it is compiled."""

    frontend: str
    opt_level: str
    flags: tuple[str, ...]


class Way(msgspec.Struct, frozen=True):
    """A variant with a name."""

    name: str
    frontend: str
    opt_level: str
    flags: tuple[str, ...]

    @property
    def variant(self) -> Variant:
        return Variant(self.frontend, self.opt_level, self.flags)


class Attempt(Way, frozen=True):
    """What a remedy tries for one cell, after a first failure with one of `reasons`.

    What the plan of a run adds: `options` of the command that compiles; the `program`, and the status file of its
    `export`; `hang`: why it is not run ("": it is run).
    """

    name: str = msgspec.field(name="remedy")
    reasons: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    program: str = ""
    export: str = ""
    hang: str = ""


class Candidate(Way, frozen=True):
    """What tuning tries. `configured`: the target has it without tuning. `needs`, `avoid`: properties that the program must
    have all of, and none of. The other fields are those of Attempt."""

    options: tuple[str, ...] = ()
    program: str = ""
    export: str = ""
    configured: bool = False
    needs: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    hang: str = ""

    def with_spec(self, flag: str, spec: Path) -> Candidate:
        """The candidate that compiles the same with a tuning spec. `flag`: of iree-compile, which takes its path."""
        flags = to_text([*self.flags, f"{flag}={spec}"])
        options = (*self.options, "--flags", flags)  # of several, the last one counts
        return msgspec.structs.replace(
            self, name=f"{self.name}-spec", options=options, configured=False
        )


class Search(msgspec.Struct, frozen=True):
    """What tuning searches: candidates in the order in which they are tried, within `budget_s` seconds.

    `properties`: the regular expressions of which one is found in a line of a program with that property. `keep`: the
    share of the modules that stay when slow ones leave (race.Race). `specs`: the share of the seconds for tuning specs
    (0: none are searched for), which iree-compile takes by `spec_flag`.
    """

    candidates: tuple[Candidate, ...]
    properties: dict[str, tuple[str, ...]]
    budget_s: float
    keep: float
    specs: float = 0.0
    spec_flag: str = ""


def to_text(values: object) -> str:
    """One line of JSON. Equal values give equal text."""
    return json.dumps(msgspec.to_builtins(values), separators=(",", ":"))


def attempts_of(text: str) -> tuple[Attempt, ...]:
    """The attempts that `to_text` has written. Raises ValueError."""
    return msgspec.json.decode(text, type=tuple[Attempt, ...])


def search_of(text: str) -> Search:
    """The search that `to_text` has written. Raises ValueError."""
    return msgspec.json.decode(text, type=Search)
