"""Flag sets: named lists of iree-compile's flags, with what each applies to.

The table is workflow/flag_sets.yaml. This module reads it, and expands the names in a target's `flags`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from scripts.core import checkout
from scripts.iree.backends import BACKENDS, OPT_LEVELS
from scripts.matrix import reading
from scripts.matrix.reading import ConfigError

FILE = checkout.ROOT / "workflow" / "flag_sets.yaml"


class FlagSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An entry of the table.

    `does`, `why`, `seen`: for people. `iree`: the versions of IREE for which that is known. `needs`: the
    properties that a program must have all of, and `avoid`: those of which it must have none, for the
    set to be tried. `opt_levels`: those at which it changes something (empty: all).
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


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table. `properties`: regular expressions, of which one is found in a line of a program with that property.
    `opt_levels`: by backend. `preprocessing`: sets that run a pass before all others."""

    properties: dict[str, tuple[str, ...]]
    opt_levels: dict[str, tuple[str, ...]]
    flag_sets: dict[str, FlagSet]
    preprocessing: dict[str, FlagSet]

    @property
    def named(self) -> dict[str, FlagSet]:
        """All sets of both sections by name."""
        return self.flag_sets | self.preprocessing

    def of(self, backend: str) -> list[str]:
        """Return the names of all sets for a backend."""
        return [name for name, one in self.named.items() if backend in one.backends]

    def expanded(self, entries: Sequence[str], backend: str) -> tuple[str, ...]:
        """Return flags in which the names of sets are replaced by their flags.

        Raises ConfigError for a name that is no set for this backend.
        """
        found: list[str] = []
        for entry in entries:
            if entry.startswith("--"):
                found.append(entry)
                continue
            if entry not in self.named:
                there = ", ".join(self.of(backend)) or "none"
                raise ConfigError(
                    f"unknown flag set {entry!r}; for {backend} there are: {there} (a flag begins with --)"
                )
            if backend not in self.named[entry].backends:
                known = ", ".join(self.named[entry].backends)
                raise ConfigError(f"flag set {entry!r} is for {known}, the backend is {backend}")
            found += self.named[entry].flags
        return tuple(found)


@functools.cache
def table(path: Path = FILE) -> Table:
    """Read the table. Raises ConfigError that names the file and what is wrong."""
    content = reading.read(path)
    try:
        sections = {
            section: {name: {"name": name} | entry for name, entry in content[section].items()}
            for section in ("flag_sets", "preprocessing")
            if section in content
        }
        found = msgspec.convert(content | sections, Table)
    except (AttributeError, TypeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if problems := list(_problems(found)):
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return found


def _problems(found: Table) -> Iterator[str]:
    for backend, levels in found.opt_levels.items():
        yield from reading.not_among("opt_levels", [backend], BACKENDS)
        yield from reading.not_among(f"opt_levels.{backend}", levels, OPT_LEVELS)
    for name in found.flag_sets.keys() & found.preprocessing.keys():
        yield f"preprocessing.{name}: found the name of a flag set, expected another one"
    for section in ("flag_sets", "preprocessing"):
        for one in getattr(found, section).values():
            where = f"{section}.{one.name}"
            yield from reading.not_among(f"{where}.backends", one.backends, BACKENDS)
            yield from reading.not_among(f"{where}.needs", one.needs, found.properties)
            yield from reading.not_among(f"{where}.avoid", one.avoid, found.properties)
            yield from reading.not_among(f"{where}.opt_levels", one.opt_levels, OPT_LEVELS)
            if one.name.startswith("-"):
                yield f"{where}: found a name that begins with -, as flags do"
            for flag in one.flags:
                if not flag.startswith("--"):
                    yield f"{where}.flags: found {flag!r}, expected a flag that begins with --"
