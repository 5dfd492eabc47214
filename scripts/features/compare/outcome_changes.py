"""How the outcome of a cell has changed."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.features.compare.pairs import Pair, Record
from scripts.records import remedied
from scripts.supervise import outcome
from scripts.verify import codes

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
class OutcomeChange:
    """`before` and `after`: such as `compile: shared-memory-limit`, or `ok`. `detail`: the line of the log that
    explains the failure."""

    cell: str
    kind: str
    before: str
    after: str
    detail: str = ""


def change(pair: Pair) -> OutcomeChange | None:
    """Return how the outcome of a cell has changed; None if it has not."""
    was, now = (_described(row) if row else "" for row in (pair.before, pair.after))
    if pair.before is None or pair.after is None:
        return OutcomeChange(pair.cell, NEW if pair.before is None else GONE, was, now)
    kind = _kind(pair.before, pair.after)
    if not kind:
        return None
    explained = pair.before if kind in (FIXED, NEWLY_RIGHT) else pair.after
    detail = remedied.first_error(explained) or explained["outcome"]["detail"]
    return OutcomeChange(pair.cell, kind, was, now, detail)


def _described(record: Record) -> str:
    """The outcome of a row in few words."""
    if (state := _state(record)) != _FAILED:
        return state
    said = ": ".join(_failure(record))
    return f"{said} (compiled by remedy)" if remedied.is_remedied(record) else said


def _kind(before: Record, after: Record) -> str:
    was, now = _state(before), _state(after)
    worked, works = (state in (_OK, _COMPILES) for state in (was, now))
    if was == now:
        same = was != _FAILED or _failure(before) == _failure(after)
        return "" if same else OTHER_REASON
    if now == _WRONG:
        return NEWLY_WRONG
    if was == _WRONG:
        return NEWLY_RIGHT if now == _OK else OTHER_REASON if now == _FAILED else DEVICE
    if worked and works:
        return DEVICE
    return FIXED if works else BROKEN


def _state(record: Record) -> str:
    """What has become of what was asked: a cell that a remedy has compiled did not compile as asked."""
    if remedied.is_remedied(record):
        return _FAILED
    status = record["outcome"]["status"]
    if status == outcome.OK:
        return _OK
    if record["verification"]["code"] == codes.FAIL:
        return _WRONG
    return _COMPILES if status == outcome.UNAVAILABLE else _FAILED


def _failure(record: Record) -> tuple[str, str]:
    """The stage that failed and the reason; of a cell that a remedy has compiled, those of its compilation."""
    if remedied.is_remedied(record):
        return "compile", remedied.first_error(record, "reason")
    ended = record["outcome"]
    return ended["stage"], ended["reason"] or ended["status"]
