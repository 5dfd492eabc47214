"""Failures by cause: those that are the same (same_failure.py) are one cluster."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.config import stages
from scripts.iree.backends import compile_flags, renamed
from scripts.results.row import Row
from scripts.supervise.diagnose import failure_signature
from scripts.supervise.outcome import Outcome

Record = Mapping[str, Any]
Key = tuple[str, str, str]
"""What the failures of a cluster have in common: stage, reason and signature."""


@dataclass(frozen=True)
class Cluster:
    """Failures of one cause. `example`: the record of the first row. `blocks`: (model, target) for which nothing but this
    cause fails, with the remedies that compile them all the same."""

    stage: str
    reason: str
    signature: str
    rows: tuple[Row, ...]
    example: Record
    blocks: Mapping[tuple[str, str], str]

    @property
    def is_made_good(self) -> bool:
        """Whether remedies have compiled all its rows."""
        return all(row.remedy for row in self.rows)


def command(record: Record, failed: Outcome) -> str:
    """Return the shortest command that shows the failure of a row.

    For a compilation it is that of iree-compile. The other stages have no such tool; their own
    command is returned.
    """
    experiment = record["experiment"]
    if failed.stage != "compile":
        own: str = record["outcome"].get("command", "")
        return own
    program = stages.STAGES["export"].path(
        f"{record['model']['name']}/{experiment['frontend']}", "program.mlir"
    )
    asked = compile_flags(
        experiment["backend"],
        experiment.get("arch"),
        experiment.get("opt_level"),
        experiment.get("flags") or (),
    )
    flags = renamed(asked, record["versions"].get("iree") or "")
    return shlex.join(["iree-compile", *flags, program, "-o", "module.vmfb"])


def clusters(records: Sequence[Record]) -> list[Cluster]:
    """Return the clusters of all failures: first those that nothing made good, the one that alone blocks
    most first."""
    rows = [Row.of_record(record) for record in records]
    places: dict[Key, list[int]] = {}
    for place, row in enumerate(rows):
        if ended := row.failed:
            key = ended.stage, ended.reason, failure_signature(ended.detail)
            places.setdefault(key, []).append(place)
    blocked = _blocked(rows, {key: [rows[n] for n in at] for key, at in places.items()})
    grouped = [
        Cluster(*key, tuple(rows[n] for n in at), records[at[0]], blocked.get(key, {}))
        for key, at in places.items()
    ]
    return sorted(
        grouped,
        key=lambda cluster: (
            cluster.is_made_good,
            -len(cluster.blocks),
            -len(cluster.rows),
            cluster.reason,
        ),
    )


def _blocked(
    rows: Sequence[Row], failed: Mapping[Key, Sequence[Row]]
) -> dict[Key, dict[tuple[str, str], str]]:
    """Return, by cluster, the (model, target) all of whose lowering paths fail for its reason alone."""
    every = Counter((row.model, row.column.target) for row in rows if row.column.target)
    blocked: dict[Key, dict[tuple[str, str], str]] = {}
    for key, failed_rows in failed.items():
        remedies: dict[tuple[str, str], list[str]] = {}
        for row in failed_rows:
            remedies.setdefault((row.model, row.column.target), []).append(row.remedy)
        blocked[key] = {
            place: ", ".join(dict.fromkeys(filter(None, names)))
            for place, names in remedies.items()
            if len(names) == every[place]
        }
    return blocked
