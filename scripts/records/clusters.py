"""Failures by cause: those whose details differ only in numbers, names and values are one cluster."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.iree.backends import compile_flags, renamed
from scripts.matrix import stages
from scripts.records import coverage, remedied
from scripts.records.results_file import cell_of
from scripts.supervise import outcome

Record = Mapping[str, Any]

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_NAMES = (
    (re.compile(r"%[\w$.#-]+"), "%"),  # an SSA value
    (re.compile(r"@[\w$.-]+"), "@"),  # a symbol
    (re.compile(r"function '\w+'"), "function"),
    (re.compile(r"[\w./-]+\.(?:mlir|py|so|irpa|npz)\b(?::N)*"), "file"),
)


def signature(detail: str) -> str:
    """Return a detail without its numbers, types, files, symbols and SSA values, and without the source line.

    Names of operations stay, because they are what failed.
    """
    found = coverage.kind_of(_ADDRESS.sub("N", detail))
    for pattern, instead in _NAMES:
        found = pattern.sub(instead, found)
    return found


@dataclass(frozen=True)
class Failure:
    """A row that failed, for its own lowering path.

    `cell`: the row. `status`, `stage`, `reason`, `detail`, `log`: those of the failure. `command`: the shortest command that
    shows it. `remedy`: what has compiled the row instead ("": nothing). `tried`: what was tried.
    `model`, `target`: of the row; a baseline has no target.
    """

    cell: str
    model: str
    target: str
    status: str
    stage: str
    reason: str
    detail: str
    log: str
    command: str
    remedy: str
    tried: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What the failures of a cluster have in common: stage, reason and signature."""
        return self.stage, self.reason, signature(self.detail)


@dataclass(frozen=True)
class Cluster:
    """Failures of one cause. `blocks`: (model, target) for which nothing but this cause fails, with the
    remedies that compile them all the same."""

    stage: str
    reason: str
    signature: str
    failures: tuple[Failure, ...]
    blocks: Mapping[tuple[str, str], str]

    @property
    def is_made_good(self) -> bool:
        """Whether remedies have compiled all its rows."""
        return all(one.remedy for one in self.failures)


def failure(record: Record) -> Failure | None:
    """Return the failure of a row; None if it did not fail, was skipped, or lacks only a device.

    A row that a remedy has compiled has the failure of what was asked for.
    """
    first = (record.get("remedy") or {}).get("first") if remedied.is_remedied(record) else None
    ended = {"stage": "compile", **first} if first else record["outcome"]
    if ended["status"] not in outcome.FAILED or ended["status"] == outcome.UNAVAILABLE:
        return None
    cell = cell_of(record)
    return Failure(
        str(cell),
        record["model"]["name"],
        cell.by_axis().get("target", ""),
        ended["status"],
        ended["stage"],
        ended["reason"],
        ended["detail"],
        ended["log"],
        command(record, ended["stage"]),
        record["remedy"]["name"] if first else "",
        remedied.tried(record) or "",
    )


def command(record: Record, stage: str) -> str:
    """Return the shortest command that shows the failure of a row at a stage.

    For a compilation it is that of iree-compile. The other stages have no such tool; their own
    command is returned.
    """
    of = record["experiment"]
    if stage != "compile":
        return record["outcome"].get("command", "")
    program = stages.STAGES["export"].path(
        f"{record['model']['name']}/{of['frontend']}", "program.mlir"
    )
    asked = compile_flags(of["backend"], of.get("arch"), of.get("opt_level"), of.get("flags") or ())
    flags = renamed(asked, record["versions"].get("iree") or "")
    return shlex.join(["iree-compile", *flags, program, "-o", "module.vmfb"])


def clusters(records: Sequence[Record]) -> list[Cluster]:
    """Return the clusters of all failures: first those that nothing made good, the one that alone blocks
    most first."""
    failures = [one for record in records if (one := failure(record))]
    groups: dict[tuple[str, str, str], list[Failure]] = {}
    for each in failures:
        groups.setdefault(each.key, []).append(each)
    blocked = _blocked(records, failures)
    found = [Cluster(*key, tuple(of), blocked.get(key, {})) for key, of in groups.items()]
    return sorted(
        found, key=lambda one: (one.is_made_good, -len(one.blocks), -len(one.failures), one.reason)
    )


def _blocked(
    records: Iterable[Record], failures: Iterable[Failure]
) -> dict[tuple[str, str, str], dict[tuple[str, str], str]]:
    """Return, by cluster, the (model, target) all of whose lowering paths fail for its reason alone."""
    rows: dict[tuple[str, str], int] = {}
    for record in records:
        if target := cell_of(record).by_axis().get("target"):
            of = record["model"]["name"], target
            rows[of] = rows.get(of, 0) + 1
    failed: dict[tuple[str, str], list[Failure]] = {}
    for one in failures:
        if one.target:
            failed.setdefault((one.model, one.target), []).append(one)
    found: dict[tuple[str, str, str], dict[tuple[str, str], str]] = {}
    for of, group in failed.items():
        if len(group) == rows[of] and len({one.key for one in group}) == 1:
            names = dict.fromkeys(one.remedy for one in group if one.remedy)
            found.setdefault(group[0].key, {})[of] = ", ".join(names)
    return found
