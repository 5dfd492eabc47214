"""Other ways to compile a program: the tables workflow/remedies.yaml and workflow/flag_sets.yaml, and what is tried where the
requested way fails."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from scripts.config import reading
from scripts.config.cell import EntryName
from scripts.config.reading import ConfigError
from scripts.core import checkout
from scripts.iree.backends import BACKENDS, OPT_LEVELS

Backend = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(BACKENDS)})$")]
OptLevel = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(OPT_LEVELS)})$")]


class Variant(msgspec.Struct, frozen=True):
    """The frontend of a program, and the opt level and flags with which it is compiled."""

    frontend: str
    opt_level: str
    flags: tuple[str, ...]


class NamedVariant(msgspec.Struct, frozen=True):
    """A variant with a name."""

    name: str
    frontend: str
    opt_level: str
    flags: tuple[str, ...]

    @property
    def variant(self) -> Variant:
        return Variant(self.frontend, self.opt_level, self.flags)


class Attempt(NamedVariant, frozen=True):
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
    opt_level: OptLevel | None = None
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
    backends: tuple[Backend, ...]
    opt_levels: tuple[OptLevel, ...]
    iree: tuple[str, ...]
    why: str

    def covers(self, model: str, backend: str, variant: Variant, iree: str) -> bool:
        """Return whether a compilation is one of them."""
        return (
            iree in self.iree
            and backend in self.backends
            and variant.opt_level in self.opt_levels
            and str(EntryName.read(variant.frontend).without("toolchain")) in self.frontends
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


WORKFLOW = checkout.ROOT / "workflow"


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


class RemedyTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a target tries, in order, when the compilation of a program has failed: remedies by name, their order for each
    backend, and the known hangs."""

    order: dict[Backend, tuple[str, ...]]
    remedies: dict[str, Remedy]
    hangs: tuple[Hang, ...] = ()

    def for_target(self, backend: str, wanted: Collection[str] | None) -> tuple[Remedy, ...]:
        """Return the remedies of a target, in order: those that it names, else those of its backend."""
        names = self.order.get(backend, ()) if wanted is None else wanted
        return tuple(self.remedies[name] for name in names)

    def problems(self) -> Iterator[str]:
        """What is wrong with its values."""
        for backend, names in self.order.items():
            yield from reading.not_among(f"order.{backend}", names, self.remedies)
        for remedy in self.remedies.values():
            if not (remedy.frontend or remedy.opt_level or remedy.add_flags or remedy.drop_flags):
                yield f"remedies.{remedy.name}: changes nothing; set frontend, opt_level, add_flags or drop_flags"


class FlagSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A named list of flags of iree-compile.

    For people: `does`, `why`, `seen`, and the versions of `iree` for which that is known. It is tried for programs that
    have all properties `needs` and none of `avoid`, at `opt_levels` (empty: all).
    """

    name: str
    does: str
    backends: tuple[Backend, ...]
    iree: tuple[str, ...]
    flags: tuple[str, ...]
    why: str
    seen: str
    needs: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    opt_levels: tuple[OptLevel, ...] = ()


class FlagSetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All flag sets. `properties`: regular expressions, of which one is found in a line of a program with that property.
    `opt_levels`: by backend. `preprocessing`: sets that run a pass before all others."""

    properties: dict[str, tuple[str, ...]]
    opt_levels: dict[Backend, tuple[OptLevel, ...]]
    flag_sets: dict[str, FlagSet]
    preprocessing: dict[str, FlagSet]

    def expanded(self, entries: Sequence[str], backend: str) -> tuple[str, ...]:
        """Return flags in which the names of sets are replaced by their flags.

        Raises ConfigError for a name that is no set for this backend.
        """
        named = self.flag_sets | self.preprocessing
        flags: list[str] = []
        for entry in entries:
            if entry.startswith("--"):
                flags.append(entry)
            elif entry not in named:
                fitting = [name for name, listed in named.items() if backend in listed.backends]
                raise ConfigError(
                    f"unknown flag set {entry!r}; for {backend} there are: {', '.join(fitting) or 'none'} "
                    "(a flag begins with --)"
                )
            elif backend not in named[entry].backends:
                backends = ", ".join(named[entry].backends)
                raise ConfigError(f"flag set {entry!r} is for {backends}, the backend is {backend}")
            else:
                flags += named[entry].flags
        return tuple(flags)

    def problems(self) -> Iterator[str]:
        """What is wrong with its values."""
        for name in self.flag_sets.keys() & self.preprocessing.keys():
            yield f"preprocessing.{name}: found the name of a flag set, expected another one"
        for section in ("flag_sets", "preprocessing"):
            for entry in getattr(self, section).values():
                where = f"{section}.{entry.name}"
                yield from reading.not_among(f"{where}.needs", entry.needs, self.properties)
                yield from reading.not_among(f"{where}.avoid", entry.avoid, self.properties)
                for flag in entry.flags:
                    if not flag.startswith("--"):
                        yield f"{where}.flags: found {flag!r}, expected a flag that begins with --"
                if entry.name.startswith("-"):
                    yield f"{where}: found a name that begins with -, as flags do"


@functools.cache
def remedies(path: Path = WORKFLOW / "remedies.yaml") -> RemedyTable:
    """Read the remedies. Raises ConfigError that names the file and what is wrong."""
    return _read(path, RemedyTable, ("remedies",))


@functools.cache
def flag_sets(path: Path = WORKFLOW / "flag_sets.yaml") -> FlagSetTable:
    """Read the flag sets. Raises ConfigError that names the file and what is wrong."""
    return _read(path, FlagSetTable, ("flag_sets", "preprocessing"))


Table = TypeVar("Table", RemedyTable, FlagSetTable)


def _read(path: Path, form: type[Table], sections: Iterable[str]) -> Table:
    """Read a file of the form of a struct. The entries of the mappings `sections` get their keys as names.

    Raises ConfigError that names the file and what is wrong, one error per line.
    """
    content = reading.read(path)
    try:
        for section in filter(content.__contains__, sections):
            entries = content[section].items()
            content[section] = {name: {"name": name} | entry for name, entry in entries}
        table = msgspec.convert(content, form)
    except (AttributeError, TypeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if problems := list(table.problems()):
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return table
