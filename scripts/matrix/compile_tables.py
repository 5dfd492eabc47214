"""The tables of other ways to compile: workflow/remedies.yaml and workflow/flag_sets.yaml."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from scripts.core import checkout
from scripts.iree.backends import BACKENDS, OPT_LEVELS
from scripts.matrix import reading
from scripts.matrix.reading import ConfigError
from scripts.matrix.ways import Hang, Remedy

WORKFLOW = checkout.ROOT / "workflow"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole file."""

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ValueError("\n".join(problems))

    def _problems(self) -> Iterator[str]:
        """What is wrong with its values."""
        return iter(())


class RemedyTable(_Table, frozen=True):
    """What a target tries, in order, when the compilation of a program has failed: remedies by name, their order for each
    backend, and the known hangs."""

    order: dict[str, tuple[str, ...]]
    remedies: dict[str, Remedy]
    hangs: tuple[Hang, ...] = ()

    def for_target(self, backend: str, wanted: Collection[str] | None) -> tuple[Remedy, ...]:
        """Return the remedies of a target, in order: those that it names, else those of its backend."""
        names = self.order.get(backend, ()) if wanted is None else wanted
        return tuple(self.remedies[name] for name in names)

    def _problems(self) -> Iterator[str]:
        for backend, names in self.order.items():
            yield from reading.not_among(f"order.{backend}", [backend], BACKENDS)
            yield from reading.not_among(f"order.{backend}", names, self.remedies)
        for remedy in self.remedies.values():
            where = f"remedies.{remedy.name}"
            if remedy.opt_level is not None:
                yield from reading.not_among(f"{where}.opt_level", [remedy.opt_level], OPT_LEVELS)
            if not (remedy.frontend or remedy.opt_level or remedy.add_flags or remedy.drop_flags):
                yield f"{where}: changes nothing; set frontend, opt_level, add_flags or drop_flags"
        for number, hang in enumerate(self.hangs):
            yield from reading.not_among(f"hangs[{number}].backends", hang.backends, BACKENDS)
            yield from reading.not_among(f"hangs[{number}].opt_levels", hang.opt_levels, OPT_LEVELS)


class FlagSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A named list of flags of iree-compile.

    For people: `does`, `why`, `seen`, and the versions of `iree` for which that is known. It is tried for programs that
    have all properties `needs` and none of `avoid`, at `opt_levels` (empty: all).
    """

    name: str
    does: str
    backends: tuple[str, ...]
    iree: tuple[str, ...]
    flags: tuple[str, ...]
    why: str
    seen: str
    needs: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    opt_levels: tuple[str, ...] = ()


class FlagSetTable(_Table, frozen=True):
    """All flag sets. `properties`: regular expressions, of which one is found in a line of a program with that property.
    `opt_levels`: by backend. `preprocessing`: sets that run a pass before all others."""

    properties: dict[str, tuple[str, ...]]
    opt_levels: dict[str, tuple[str, ...]]
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
                there = [name for name, listed in named.items() if backend in listed.backends]
                raise ConfigError(
                    f"unknown flag set {entry!r}; for {backend} there are: {', '.join(there) or 'none'} "
                    "(a flag begins with --)"
                )
            elif backend not in named[entry].backends:
                known = ", ".join(named[entry].backends)
                raise ConfigError(f"flag set {entry!r} is for {known}, the backend is {backend}")
            else:
                flags += named[entry].flags
        return tuple(flags)

    def _problems(self) -> Iterator[str]:
        for backend, levels in self.opt_levels.items():
            yield from reading.not_among("opt_levels", [backend], BACKENDS)
            yield from reading.not_among(f"opt_levels.{backend}", levels, OPT_LEVELS)
        for name in self.flag_sets.keys() & self.preprocessing.keys():
            yield f"preprocessing.{name}: found the name of a flag set, expected another one"
        for section in ("flag_sets", "preprocessing"):
            for entry in getattr(self, section).values():
                where = f"{section}.{entry.name}"
                yield from reading.not_among(f"{where}.backends", entry.backends, BACKENDS)
                yield from reading.not_among(f"{where}.needs", entry.needs, self.properties)
                yield from reading.not_among(f"{where}.avoid", entry.avoid, self.properties)
                yield from reading.not_among(f"{where}.opt_levels", entry.opt_levels, OPT_LEVELS)
                if entry.name.startswith("-"):
                    yield f"{where}: found a name that begins with -, as flags do"
                for flag in entry.flags:
                    if not flag.startswith("--"):
                        yield f"{where}.flags: found {flag!r}, expected a flag that begins with --"


@functools.cache
def remedies(path: Path = WORKFLOW / "remedies.yaml") -> RemedyTable:
    """Read the remedies. Raises ConfigError that names the file and what is wrong."""
    return _read(path, RemedyTable, ("remedies",))


@functools.cache
def flag_sets(path: Path = WORKFLOW / "flag_sets.yaml") -> FlagSetTable:
    """Read the flag sets. Raises ConfigError that names the file and what is wrong."""
    return _read(path, FlagSetTable, ("flag_sets", "preprocessing"))


Table = TypeVar("Table", bound=_Table)


def _read(path: Path, form: type[Table], sections: Iterable[str]) -> Table:
    """Read a file of the form of a struct. The entries of the mappings `sections` get their keys as names.

    Raises ConfigError that names the file and what is wrong, one error per line.
    """
    content = reading.read(path)
    try:
        for section in filter(content.__contains__, sections):
            entries = content[section].items()
            content[section] = {name: {"name": name} | entry for name, entry in entries}
        return msgspec.convert(content, form)
    except (AttributeError, TypeError, msgspec.ValidationError) as error:
        problems = str(error).splitlines()
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems)) from error
