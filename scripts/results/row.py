"""A row as pages, screens and plots see it: how it ended for its own lowering path, and its timing.

A record is large, and there may be a hundred thousand of them, so a row keeps only these values of its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scripts.config.cell import EVAL, Cell, Kind
from scripts.measure.timing.ratios import Interval
from scripts.results import remedied, speedups
from scripts.results.results_file import cell_of
from scripts.results.speedups import Conditions, Latency
from scripts.supervise import outcome
from scripts.supervise.outcome import Outcome

Record = Mapping[str, Any]

VERIFIED, OTHER_PATH, COMPILED, NO_DEVICE = "verified", "other path", "compiled", "no device"
WRONG, FAILED, SKIPPED = "wrong result", "failed", "skipped"
ENDINGS = {
    VERIFIED: "ran, and the results agree with eager's",
    OTHER_PATH: "failed as asked; a remedy compiled the program of another lowering path",
    COMPILED: "compiled, but there is no device to run it",
    NO_DEVICE: "this machine has no such device",
    WRONG: "ran, and the results are wrong",
    FAILED: "a stage failed",
    SKIPPED: "not run, because of a skip list or an earlier failure",
}
"""How a row can end, with the meaning."""


@dataclass(frozen=True)
class Column:
    """A baseline (`target` is ""), or a lowering path and its target. Both tests of a path have the same."""

    name: str
    target: str = ""

    @property
    def label(self) -> str:
        """Such as `torchmlir-torch/llvm-cpu`, or the name of a baseline."""
        return f"{self.name}/{self.target}" if self.target else self.name

    @classmethod
    def of_cell(cls, cell: Cell) -> Column:
        if cell.kind is Kind.IREE:
            return cls(str(cell.names["frontend"].without("test")), cell.target)
        return cls(cell.baseline)


@dataclass(frozen=True, slots=True)
class Timing:
    """A measured latency. `latency`: the section of its record."""

    latency: Latency

    @property
    def ms(self) -> float:
        return float(self.latency["ms"])

    @property
    def ends_ms(self) -> tuple[float, float] | None:
        """The 99 % interval in ms; None if there is none."""
        low, high = self.latency["low_ms"], self.latency["high_ms"]
        return None if low is None else (low, high)

    @property
    def is_unknown(self) -> bool:
        """Whether its interval is too wide for the latency to be a number (Interval.is_known)."""
        return self.ends_ms is not None and not Interval(self.ms, *self.ends_ms).is_known

    @property
    def doubt(self) -> str:
        """Why its ratios have no interval or a wide one; "" if nothing was seen."""
        return str(self.latency["doubt"])

    @property
    def leaked_bytes(self) -> int:
        """Bytes that each call leaves behind; 0 if none were seen."""
        return int(self.latency.get("leaked_bytes") or 0)


@dataclass(frozen=True, slots=True)
class Row:
    """A row. If a remedy took the program of another lowering path (`by_other_path`), it has failed and has no timing.

    `runtime`: see speedups.runtime_of. `conditions`: of a row with a timing. `failed`: the failure of what was asked for, also
    of a row that a remedy has made good; None without one, for a row that was skipped, and for one that lacks only its
    device. `remedy`, `tried`: what has compiled it instead, and all that was tried; "" for none.
    """

    cell: Cell
    column: Column
    ended: Outcome
    timing: Timing | None = None
    runtime: str = "iree"
    test: str = EVAL
    conditions: Conditions | None = None
    failed: Outcome | None = None
    remedy: str = ""
    tried: str = ""
    by_other_path: bool = False
    is_compiled: bool = False

    @classmethod
    def of_record(cls, record: Record) -> Row:
        """Return the row of a record."""
        cell, other = cell_of(record), remedied.by_other_path(record)
        latency = None if other else record["latency"]
        ended = as_asked = _outcome(cell, record["outcome"])
        remedy = record["remedy"] if remedied.is_remedied(record) else None
        if remedy:
            as_asked = _outcome(cell, {"stage": "compile"} | remedy["first"])
        return cls(
            cell,
            Column.of_cell(cell),
            as_asked if other else ended,
            Timing(latency) if latency else None,
            runtime=speedups.runtime_of(record),
            test=record["experiment"]["test"],
            conditions=speedups.comparable(record) if latency else None,
            failed=as_asked if as_asked.status in outcome.FAILED else None,
            remedy=remedy["name"] if remedy else "",
            tried=remedied.tried(record) or "",
            by_other_path=other,
            is_compiled=bool(record.get("compile")),
        )

    @property
    def model(self) -> str:
        return self.cell.model

    @property
    def ending(self) -> str:
        """How the row ended: a key of ENDINGS."""
        if self.by_other_path:
            return OTHER_PATH
        if self.timing:
            return VERIFIED
        if self.ended.status == outcome.UNAVAILABLE:
            return COMPILED if self.is_compiled else NO_DEVICE
        if self.ended.status == outcome.SKIPPED:
            return SKIPPED
        return WRONG if self.ended.reason == "wrong-result" else FAILED

    @property
    def way(self) -> str:
        """How its module was made, of a row of IREE: one of remedied.WAYS."""
        return remedied.WAYS[1 if self.remedy else 0 if self.is_compiled or self.timing else 2]

    @property
    def why(self) -> str:
        """Why it has no latency, in one word."""
        return self.ended.status if self.ended.status == outcome.SKIPPED else self.reason

    @property
    def reason(self) -> str:
        return self.ended.reason or self.ended.status


def _outcome(cell: Cell, values: Mapping[str, Any]) -> Outcome:
    known = {key: values.get(key, "") for key in ("status", "stage", "reason", "detail", "log")}
    return Outcome(cell=str(cell), **known)
