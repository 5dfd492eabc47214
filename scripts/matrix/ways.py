"""Ways to compile the program of a cell: what is requested, and what is tried where that fails."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

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

    What the plan of a run adds: `target`, the fields of a request to compile; the `program`, and the status file of its
    `export`; `hang`: why it is not run ("": it is run).
    """

    name: str = msgspec.field(name="remedy")
    reasons: tuple[str, ...] = ()
    target: dict[str, Any] = msgspec.field(default_factory=dict)
    program: str = ""
    export: str = ""
    hang: str = ""


class Remedy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An entry of the table.

    For people: `does`, `why` that helps, on which failures it was `seen` to help, with which `versions` of packages.
    `reasons`: of the first failures for which it is tried. The other fields are what it changes: the frontend, the opt
    level (to at most this one), and flags.
    """

    name: str
    does: str
    why: str
    seen: str
    versions: dict[str, str]
    reasons: tuple[str, ...]
    frontend: str | None = None
    opt_level: str | None = None
    add_flags: tuple[str, ...] = ()
    drop_flags: tuple[str, ...] = ()

    def applied(self, asked: Variant) -> Variant:
        """Return the variant that it tries instead of what was requested."""
        # A flag is dropped with any value: `--x` drops `--x=true` too.
        kept = tuple(
            flag for flag in asked.flags if not {flag, flag.partition("=")[0]} & {*self.drop_flags}
        )
        added = tuple(flag for flag in self.add_flags if flag not in kept)
        return Variant(
            self.frontend or asked.frontend,
            min(asked.opt_level, self.opt_level or asked.opt_level),
            kept + added,
        )


class Hang(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Compilations that do not end within minutes with these versions of IREE. `models` are globs. `why` is a part of the
    row's detail."""

    models: tuple[str, ...]
    frontends: tuple[str, ...]
    backends: tuple[str, ...]
    opt_levels: tuple[str, ...]
    iree: tuple[str, ...]
    why: str

    def covers(self, model: str, backend: str, variant: Variant, iree: str) -> bool:
        """Return whether a compilation is one of them."""
        return (
            iree in self.iree
            and backend in self.backends
            and variant.opt_level in self.opt_levels
            and variant.frontend.partition("@")[0] in self.frontends
            and any(fnmatchcase(model, glob) for glob in self.models)
        )


def attempts(
    remedies: Iterable[Remedy], asked: Variant, frontends: Collection[str]
) -> list[Attempt]:
    """Return what is tried instead of `asked`, the requested way, in order.

    A remedy that changes nothing, or needs a frontend that is not among `frontends`, is left out. One that
    gives the variant of an earlier one is left out too: its reasons are added to those of the earlier one.
    """
    by_variant: dict[Variant, Attempt] = {}
    for remedy in remedies:
        tried = remedy.applied(asked)
        if tried == asked or tried.frontend not in {asked.frontend, *frontends}:
            continue
        if before := by_variant.get(tried):
            reasons = tuple(dict.fromkeys((*before.reasons, *remedy.reasons)))
            by_variant[tried] = msgspec.structs.replace(before, reasons=reasons)
        else:
            by_variant[tried] = Attempt(
                remedy.name, tried.frontend, tried.opt_level, tried.flags, remedy.reasons
            )
    return list(by_variant.values())


def wanted(attempts: Iterable[Attempt], reason: str) -> list[Attempt]:
    """The attempts that are made after a failure with this reason."""
    return [attempt for attempt in attempts if reason in attempt.reasons]


def to_text(values: object) -> str:
    """One line of JSON. Equal values give equal text."""
    return json.dumps(msgspec.to_builtins(values), separators=(",", ":"))


def digest(attempts: Sequence[Attempt]) -> str:
    """A hash (6 hex digits) of everything that attempts consist of."""
    return hashlib.sha256(to_text(attempts).encode()).hexdigest()[:6]


def fingerprint(code: str, attempts: Sequence[Attempt]) -> str:
    """What may change how a failure is remedied: the code of the stage, and the attempts."""
    return f"{code}~{digest(attempts)}"


def code_of(fingerprint: str) -> str:
    """The code's part of such a fingerprint."""
    return fingerprint.partition("~")[0]
