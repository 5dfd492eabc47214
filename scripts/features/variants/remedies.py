"""Remedies: what a target tries, in order, when the compilation of a program has failed (workflow/remedies.yaml)."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from scripts.core import checkout
from scripts.features.variants import table_file
from scripts.iree.backends import BACKENDS, OPT_LEVELS
from scripts.matrix import reading
from scripts.matrix.ways import Hang, Remedy

FILE = checkout.ROOT / "workflow" / "remedies.yaml"


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


@functools.cache
def table(path: Path = FILE) -> Table:
    """Read the table. Raises ConfigError that names the file and what is wrong."""
    return table_file.read(path, Table, ("remedies",))
