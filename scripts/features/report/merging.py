"""Merges records of several results folders into one set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.records import speedups
from scripts.records.results_file import cell_of

Record = dict[str, Any]
FIRST, LAST, NEWEST = "first", "last", "newest"
CHOICES = (FIRST, LAST, NEWEST)
"""Which record of a cell to take: that of the first file, of the last file, or the one that was measured last."""
RELATIVE = ("speedup_vs_", "verdict")
"""Beginnings of the values of a latency that depend on other rows of the same run."""


@dataclass(frozen=True)
class Conflict:
    """A cell with different records: for each file, how its row ended, with its latency and versions."""

    cell: str
    rows: tuple[tuple[Path, str], ...]


@dataclass(frozen=True)
class Merged:
    """The records of all files, in the order of the files, and the cells with different records."""

    records: list[Record]
    conflicts: list[Conflict]


def merge(files: Mapping[Path, Sequence[Record]], prefer: str | None = None) -> Merged:
    """Return the records of all files, one per cell, with speed-ups over the merged rows.

    `prefer`: one of CHOICES for cells with different records, else the first file's.
    """
    found: dict[str, list[tuple[Path, Record]]] = {}
    for path, records in files.items():
        for record in records:
            found.setdefault(str(cell_of(record)), []).append((path, record))
    conflicts = [
        Conflict(cell, tuple((path, _described(record)) for path, record in rows))
        for cell, rows in found.items()
        if len({_own(record) for _, record in rows}) > 1
    ]
    chosen = [_chosen([record for _, record in rows], prefer or FIRST) for rows in found.values()]
    speedups.add_speedups(chosen)
    return Merged(chosen, conflicts)


def _chosen(records: Sequence[Record], prefer: str) -> Record:
    if prefer == NEWEST:  # the later file, if it is not known
        return max(reversed(records), key=_measured)
    return records[-1 if prefer == LAST else 0]


def _measured(record: Record) -> float:
    """When the record was timed, in seconds since the epoch; 0 if it is not known."""
    return float(record["latency"]["started"]) if record["latency"] else 0.0


def _own(record: Record) -> str:
    """Return a text that is equal for records of the same measurement, without what depends on other rows."""
    latency = record["latency"]
    own = latency and {k: v for k, v in latency.items() if not k.startswith(RELATIVE)}
    outcome = {k: v for k, v in record["outcome"].items() if k != "stale"}
    kept = {k: v for k, v in record.items() if k not in ("latency", "outcome", "work")}
    return json.dumps([kept, own, outcome], sort_keys=True)


def _described(record: Record) -> str:
    """How a row ended, its latency, and the versions that it names."""
    ended, latency = record["outcome"], record["latency"]
    result = f"{latency['ms']:.4g} ms" if latency else f"{ended['status']} ({ended['reason']})"
    versions = ", ".join(f"{name} {one}" for name, one in record["versions"].items() if one)
    return f"{result} with {versions}" if versions else result
