"""Pairs of rows of the same cell, before and after, and why their latencies must not be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scripts.features.compare.history.store import toolchain_of
from scripts.matrix import toolchains
from scripts.records import remedied, speedups
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

    @property
    def measured(self) -> tuple[Record, Record] | None:
        """Both rows of a cell if both have a latency."""
        both = self.both
        return both if both and all(row["latency"] for row in both) else None


def of_files(before: Iterable[Record], after: Iterable[Record]) -> list[Pair]:
    """Return the pairs of two sets of rows, in the order of the rows after; rows that are gone come last."""
    was, now = ({str(cell_of(row)): row for row in rows} for rows in (before, after))
    return [Pair(cell, was.get(cell), now.get(cell)) for cell in dict.fromkeys([*now, *was])]


def of_toolchains(records: Iterable[Record], before: str, after: str) -> list[Pair]:
    """Return the pairs of the rows of two toolchains in one run.

    Rows of baselines are left out, and those that both toolchains share because none changes them. Raises ValueError, with the toolchains that
    there are, if one of the two has no row.
    """
    rows: dict[str, dict[str, Record]] = {}
    for row in records:
        if row["experiment"]["runtime"] == "iree":
            toolchain = toolchain_of(row)
            parts = str(cell_of(row)).split("/")
            cell = "/".join(part.removesuffix(f"{toolchains.SEPARATOR}{toolchain}") for part in parts)  # fmt: skip
            rows.setdefault(toolchain, {})[cell] = row
    for name in (before, after):
        if name not in rows:
            known = ", ".join(sorted(rows)) or "none"
            raise ValueError(
                f"no row has the toolchain {name!r}; the toolchains of the rows are: {known}"
            )
    was, now = rows[before], rows[after]
    return [Pair(cell, was[cell], now[cell]) for cell in now if cell in was]


def difference(before: Record, after: Record) -> str:
    """Return what differs between two rows that would have to be the same, or "".

    A value that one of the rows does not have (older records lack some) is not compared.
    """
    for name, value_of in _SAME.items():
        was, now = value_of(before), value_of(after)
        if was is None or now is None or was == now:
            continue
        if isinstance(was, Mapping):
            keys = [key for key in dict.fromkeys([*was, *now]) if was.get(key) != now.get(key)]
            said = [f"{key} {was.get(key)} before, {now.get(key)} after" for key in keys]
            return f"{name}: {', '.join(said)}"
        was, now = (" ".join(map(str, v)) if isinstance(v, tuple) else v for v in (was, now))
        return f"{name}: {was} before, {now} after"
    return ""


def _digest(name: str) -> Callable[[Record], Any]:
    return lambda record: (record["reference"].get("digests") or {}).get(name)


def _experiment(name: str) -> Callable[[Record], Any]:
    return lambda record: record["experiment"].get(name)


def _options(record: Record) -> Mapping[str, Any]:
    return record["reference"].get("resolved") or record["model"].get("options") or {}


def _program(record: Record) -> str | None:
    """The frontend whose program was compiled, without its toolchain."""
    return toolchains.base(remedied.frontend_used(record) or "") or None


_SAME: dict[str, Callable[[Record], Any]] = {
    "device": lambda record: speedups.device_of(record)[:2],
    "threads": lambda record: record["run"]["threads"],
    "test": _experiment("test"),
    "optimizer": lambda record: record["experiment"].get("optimizer") or None,
    "dtype": _experiment("dtype"),
    "precision": _experiment("precision"),
    "matmul precision": _experiment("matmul_precision"),
    "batch size": _experiment("batch_size"),
    "options of the model": _options,
    "bytes of the weights": lambda record: record["reference"].get("weights_bytes"),
    "weights": _digest("weights"),
    "inputs": _digest("inputs"),
    "code of the model": _digest("code"),
    "remedy": lambda record: (record.get("remedy") or {}).get("name") or "none",
    "program compiled": _program,
}
"""What both rows must share, by its name."""
