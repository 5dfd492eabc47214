"""Pairs of rows of the same cell, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.matrix.toolchains import PINNED, SEPARATOR
from scripts.records.results_file import cell_of

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """A cell with its row before and its row after; None where there is none."""

    cell: str
    before: Record | None
    after: Record | None

    @property
    def both(self) -> tuple[Record, Record] | None:
        """Both rows; None if one is missing."""
        return (self.before, self.after) if self.before and self.after else None


def of_files(before: Iterable[Record], after: Iterable[Record]) -> list[Pair]:
    """Return the pairs of two sets of rows, in the order of the rows after; rows that are gone come last."""
    return _paired(
        {str(cell_of(one)): one for one in before}, {str(cell_of(one)): one for one in after}
    )


def of_toolchains(records: Iterable[Record], before: str, after: str) -> list[Pair]:
    """Return the pairs of the rows of two toolchains in one run.

    Rows of baselines are left out, and those that both toolchains share because none changes them. Raises ValueError, with the toolchains that
    there are, if one of the two has no row.
    """
    found: dict[str, dict[str, Record]] = {}
    for one in records:
        if one["experiment"]["runtime"] == "iree":
            found.setdefault(toolchain_of(one), {})[without_toolchain(one)] = one
    for name in (before, after):
        if name not in found:
            known = ", ".join(sorted(found)) or "none"
            raise ValueError(
                f"no row has the toolchain {name!r}; the toolchains of the rows are: {known}"
            )
    shared = found[before].keys() & found[after].keys()
    sides = (
        {name: of[name] for name in of if name in shared} for of in (found[before], found[after])
    )
    return _paired(*sides)


def toolchain_of(record: Record) -> str:
    """Return the toolchain of a row."""
    return record["experiment"].get("toolchain") or PINNED


def without_toolchain(record: Record) -> str:
    """Return the name of a cell of IREE without its toolchain: `bert/torchmlir-torch/llvm-cpu`."""
    mark = f"{SEPARATOR}{toolchain_of(record)}"
    return "/".join(part.removesuffix(mark) for part in str(cell_of(record)).split("/"))


def _paired(before: Mapping[str, Record], after: Mapping[str, Record]) -> list[Pair]:
    names = dict.fromkeys([*after, *before])
    return [Pair(name, before.get(name), after.get(name)) for name in names]
