"""Flag sets: named lists of iree-compile's flags, with what each applies to (workflow/flag_sets.yaml)."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from scripts.core import checkout
from scripts.features.variants import table_file
from scripts.iree.backends import BACKENDS, OPT_LEVELS
from scripts.matrix import reading
from scripts.matrix.reading import ConfigError

FILE = checkout.ROOT / "workflow" / "flag_sets.yaml"


class FlagSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An entry of the table.

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


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table. `properties`: regular expressions, of which one is found in a line of a program with that property.
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
        found: list[str] = []
        for entry in entries:
            if entry.startswith("--"):
                found.append(entry)
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
                found += named[entry].flags
        return tuple(found)

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ValueError("\n".join(problems))

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong with its values."""
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
def table(path: Path = FILE) -> Table:
    """Read the table. Raises ConfigError that names the file and what is wrong."""
    return table_file.read(path, Table, ("flag_sets", "preprocessing"))
