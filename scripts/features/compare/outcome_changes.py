"""The outcome of a cell, and how that has changed: between two runs, two toolchains, or two entries of the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scripts.records.row import Row
from scripts.supervise import outcome
from scripts.verify import verification

FIXED, BROKEN = "fixed", "broken"
OTHER_REASON = "other reason"
NEWLY_WRONG, NEWLY_RIGHT = "newly wrong", "newly right"
DEVICE = "device"
GONE, NEW = "gone", "new"
KINDS = {
    BROKEN: "it worked, and fails now",
    NEWLY_WRONG: "its results are wrong now",
    FIXED: "it failed, and works now",
    NEWLY_RIGHT: "its results were wrong, and are right now",
    OTHER_REASON: "it fails at another stage or for another reason",
    DEVICE: "it compiles on both machines, but one of them does not have the device",
    GONE: "there is no such cell any more",
    NEW: "there was no such cell",
}
"""The kinds of changes, worst first, with their meaning."""

_OK, _COMPILES, _WRONG, _FAILED = "ok", "compiles, no device", "wrong results", "failed"


@dataclass(frozen=True)
class Ending:
    """What has become of what was requested: a cell that a remedy has compiled did not compile as requested.

    `failure`: of a failed cell, such as `compile: shared-memory-limit`. `detail`: the line of the log that explains it.
    """

    state: str
    failure: str
    is_remedied: bool
    detail: str

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Ending:
        """The ending of a record."""
        row = Row.of_record(record)
        ended = row.failed or row.ended
        if row.remedy:
            state = _FAILED
        elif row.ended.status == outcome.OK:
            state = _OK
        elif (record.get("verification") or {}).get("code") == verification.FAIL:
            state = _WRONG
        else:
            state = _COMPILES if row.ended.status == outcome.UNAVAILABLE else _FAILED
        failure = f"{ended.stage}: {ended.reason or ended.status}" if state == _FAILED else ""
        return cls(state, failure, bool(row.remedy), ended.detail or row.ended.detail)

    @property
    def words(self) -> str:
        """The outcome, in few words."""
        return f"{self.failure or self.state}{' (compiled by remedy)' if self.is_remedied else ''}"


@dataclass(frozen=True)
class OutcomeChange:
    """`before` and `after`: the words of both endings. `detail`: of the one that is a failure."""

    cell: str
    kind: str
    before: str
    after: str
    detail: str = ""


def change(cell: str, before: Ending | None, after: Ending | None) -> OutcomeChange | None:
    """Return how the outcome of a cell has changed; None if it has not. None as an ending: there is no such cell."""
    if before is None or after is None:
        words = (ending.words if ending else "" for ending in (before, after))
        return OutcomeChange(cell, NEW if before is None else GONE, *words)
    kind = _kind(before, after)
    if not kind:
        return None
    explained = before if kind in (FIXED, NEWLY_RIGHT) else after
    return OutcomeChange(cell, kind, before.words, after.words, explained.detail)


def _kind(before: Ending, after: Ending) -> str:
    was, now = before.state, after.state
    if was == now:
        return "" if before.failure == after.failure else OTHER_REASON
    if now == _WRONG:
        return NEWLY_WRONG
    if was == _WRONG:
        return {_OK: NEWLY_RIGHT, _FAILED: OTHER_REASON}.get(now, DEVICE)
    if _FAILED not in (was, now):
        return DEVICE
    return BROKEN if now == _FAILED else FIXED
