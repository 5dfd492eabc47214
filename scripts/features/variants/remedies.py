"""Remedies: what a target tries, in order, when the compilation of a program has failed (workflow/remedies.yaml)."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from scripts.core import checkout
from scripts.features.variants import table_file
from scripts.features.variants.ways import Attempt, Variant
from scripts.iree.backends import BACKENDS, OPT_LEVELS
from scripts.matrix import reading

FILE = checkout.ROOT / "workflow" / "remedies.yaml"


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
        """Return the variant that it tries instead of what was asked for."""
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


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table: remedies by name, their order for each backend, and the known hangs."""

    order: dict[str, tuple[str, ...]]
    remedies: dict[str, Remedy]
    hangs: tuple[Hang, ...] = ()

    def of(self, backend: str, wanted: Collection[str] | None) -> tuple[Remedy, ...]:
        """Return the remedies of a target, in order: those that it names, else those of its backend."""
        names = self.order.get(backend, ()) if wanted is None else wanted
        return tuple(self.remedies[name] for name in names)

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ValueError("\n".join(problems))

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong with its values."""
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


def attempts(
    remedies: Iterable[Remedy], asked: Variant, frontends: Collection[str]
) -> list[Attempt]:
    """Return what is tried instead of `asked`, in order.

    A remedy that changes nothing, or needs a frontend that is not among `frontends`, is left out. One that
    gives the variant of an earlier one is left out too: its reasons are added to those of the earlier one.
    """
    found: dict[Variant, Attempt] = {}
    for remedy in remedies:
        tried = remedy.applied(asked)
        if tried == asked or tried.frontend not in {asked.frontend, *frontends}:
            continue
        if before := found.get(tried):
            reasons = tuple(dict.fromkeys((*before.reasons, *remedy.reasons)))
            found[tried] = msgspec.structs.replace(before, reasons=reasons)
        else:
            found[tried] = Attempt(
                remedy.name, tried.frontend, tried.opt_level, tried.flags, remedy.reasons
            )
    return list(found.values())


@functools.cache
def table(path: Path = FILE) -> Table:
    """Read the table. Raises ConfigError that names the file and what is wrong."""
    return table_file.read(path, Table, ("remedies",))
